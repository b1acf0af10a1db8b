// SPDX-License-Identifier: GPL-2.0-only
/*
 * Allocate and free blocks of orders 0 to 3, mostly 1, from many tasks, from
 * hard and soft interrupts, until unloaded.
 *
 * Both ends of a block carry its mark while it is held: one that is handed out
 * twice, or freed too early, is found when it is freed.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpumask.h>
#include <linux/gfp.h>
#include <linux/irq_work.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/timer.h>

#define HELD	256

static unsigned int seed = 1;
module_param(seed, uint, 0444);
MODULE_PARM_DESC(seed, "of the sequence of orders");

static atomic_t done = ATOMIC_INIT(0), in_irq = ATOMIC_INIT(0), bad = ATOMIC_INIT(0);
static int get_atomic(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%d\n", atomic_read(kp->arg));
}

static const struct kernel_param_ops result_ops = { .get = get_atomic };
module_param_cb(done, &result_ops, &done, 0444);
MODULE_PARM_DESC(done, "blocks allocated by tasks (result)");
module_param_cb(in_irq, &result_ops, &in_irq, 0444);
MODULE_PARM_DESC(in_irq, "blocks allocated in interrupts (result)");
module_param_cb(bad, &result_ops, &bad, 0444);
MODULE_PARM_DESC(bad, "blocks whose mark was not there any more (result)");

struct stormer {
	struct task_struct *task;
	struct irq_work hard;
	struct timer_list soft;
	struct rnd_state rnd;
	struct {
		struct page *page;
		unsigned int order;
	} held[HELD];
};

static struct stormer *stormers;
static unsigned int nr_stormers;

static unsigned long *last_word(struct page *page, unsigned int order)
{
	return page_address(page) + (PAGE_SIZE << order) - sizeof(long);
}

static struct page *get(gfp_t gfp, unsigned int order)
{
	struct page *page = alloc_pages(gfp | __GFP_NOWARN | (order ? __GFP_COMP : 0), order);

	if (page) {
		*(unsigned long *)page_address(page) = page_to_pfn(page);
		*last_word(page, order) = ~page_to_pfn(page);
	}
	return page;
}

static void put(struct page *page, unsigned int order)
{
	if (*(unsigned long *)page_address(page) != page_to_pfn(page) ||
	    *last_word(page, order) != ~page_to_pfn(page))
		atomic_inc(&bad);
	__free_pages(page, order);
}

static void one_atomic(void)
{
	struct page *page = get(GFP_ATOMIC, 1);

	if (page) {
		put(page, 1);
		atomic_inc(&in_irq);
	}
}

static void hard(struct irq_work *work)
{
	one_atomic();
}

static void soft(struct timer_list *timer)
{
	one_atomic();
}

static int storm(void *arg)
{
	struct stormer *s = arg;
	u32 r, slot;

	while (!kthread_should_stop()) {
		r = prandom_u32_state(&s->rnd);
		slot = r % HELD;
		if (s->held[slot].page) {
			put(s->held[slot].page, s->held[slot].order);
			s->held[slot].page = NULL;
		} else {
			/* order 1 in five of eight */
			s->held[slot].order = (r >> 16) % 8 < 5 ? 1 : (r >> 20) % 4;
			s->held[slot].page = get(GFP_KERNEL | __GFP_NORETRY, s->held[slot].order);
			if (s->held[slot].page)
				atomic_inc(&done);
		}
		if (r >> 24 == 0) {
			irq_work_queue(&s->hard);
			mod_timer(&s->soft, jiffies);
		}
		cond_resched();
	}
	for (slot = 0; slot < HELD; slot++)
		if (s->held[slot].page)
			put(s->held[slot].page, s->held[slot].order);
	return 0;
}

static void stop_all(void)
{
	struct stormer *s;

	for (s = stormers; s < stormers + nr_stormers; s++) {
		kthread_stop(s->task);
		irq_work_sync(&s->hard);
		timer_shutdown_sync(&s->soft);
	}
	kvfree(stormers);
}

static int __init test_pcp_storm_init(void)
{
	unsigned int wanted = 2 * num_online_cpus();
	struct stormer *s;

	/* There, the allocator must not be called in interrupts. */
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		return -EOPNOTSUPP;
	stormers = kvcalloc(wanted, sizeof(*stormers), GFP_KERNEL);
	if (!stormers)
		return -ENOMEM;
	for (s = stormers; nr_stormers < wanted; nr_stormers++, s++) {
		prandom_seed_state(&s->rnd, seed + nr_stormers);
		init_irq_work(&s->hard, hard);
		timer_setup(&s->soft, soft, 0);
		s->task = kthread_run(storm, s, "pcp_storm/%u", nr_stormers);
		if (IS_ERR(s->task)) {
			int err = PTR_ERR(s->task);

			stop_all();
			return err;
		}
	}
	return 0;
}

static void __exit test_pcp_storm_exit(void)
{
	stop_all();
}

module_init(test_pcp_storm_init);
module_exit(test_pcp_storm_exit);
MODULE_DESCRIPTION("Allocate and free blocks of pages from everywhere at once");
MODULE_LICENSE("GPL");
MODULE_INFO(test, "Y");
