// SPDX-License-Identifier: GPL-2.0-only
/*
 * Flip two static keys while a thread on another CPU runs through their
 * branches, and check that every flip is seen and that the counts add up.
 *
 * Once static_branch_enable() or _disable() has returned, no pass that begins
 * afterwards may take the old side. A pass that was under way may still end on
 * it, so two passes are let go before the old side's count must stand still.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/jump_label.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/sched.h>

static unsigned int flips = 100;
module_param(flips, uint, 0444);
MODULE_PARM_DESC(flips, "how often each key changes its state");

static unsigned int seen;
module_param(seen, uint, 0444);
MODULE_PARM_DESC(seen, "flips of both keys that the other CPU was seen to follow (read only)");

static unsigned long passes;
module_param(passes, ulong, 0444);
MODULE_PARM_DESC(passes, "times that the other CPU ran through both branches (read only)");

static DEFINE_STATIC_KEY_FALSE(unlikely_key);
static DEFINE_STATIC_KEY_TRUE(likely_key);

/* Written by the worker only, each by one side of one branch. */
static struct {
	unsigned long on;
	unsigned long off;
} unlikely_count, likely_count;

#define PASSES_PER_FLIP	10
#define PASS_TIMEOUT	(20 * HZ)

static int worker(void *unused)
{
	while (!kthread_should_stop()) {
		if (static_branch_unlikely(&unlikely_key))
			WRITE_ONCE(unlikely_count.on, unlikely_count.on + 1);
		else
			WRITE_ONCE(unlikely_count.off, unlikely_count.off + 1);

		if (static_branch_likely(&likely_key))
			WRITE_ONCE(likely_count.on, likely_count.on + 1);
		else
			WRITE_ONCE(likely_count.off, likely_count.off + 1);

		/* pairs with smp_load_acquire() in wait_passes() */
		smp_store_release(&passes, passes + 1);
		cond_resched();
	}
	return 0;
}

static int wait_passes(unsigned long n)
{
	unsigned long start = READ_ONCE(passes), end = jiffies + PASS_TIMEOUT;

	/* pairs with smp_store_release() in worker() */
	while (smp_load_acquire(&passes) - start < n) {
		if (time_after(jiffies, end)) {
			pr_err("the worker made no %lu passes in %d s\n", n, PASS_TIMEOUT / HZ);
			return -ETIMEDOUT;
		}
		usleep_range(10, 50);
	}
	return 0;
}

static int follow(const char *name, unsigned long *now, unsigned long *then)
{
	unsigned long now_before, then_before;
	int err;

	err = wait_passes(2);
	if (err)
		return err;
	now_before = READ_ONCE(*now);
	then_before = READ_ONCE(*then);
	err = wait_passes(PASSES_PER_FLIP);
	if (err)
		return err;
	if (READ_ONCE(*then) != then_before || READ_ONCE(*now) == now_before) {
		pr_err("%s key: flip %u not followed: new side %lu -> %lu, old side %lu -> %lu\n",
		       name, seen, now_before, READ_ONCE(*now), then_before, READ_ONCE(*then));
		return -EIO;
	}
	return 0;
}

static int flip_once(bool on)
{
	int err;

	if (on) {
		static_branch_enable(&unlikely_key);
		static_branch_enable(&likely_key);
	} else {
		static_branch_disable(&unlikely_key);
		static_branch_disable(&likely_key);
	}
	err = follow("unlikely", on ? &unlikely_count.on : &unlikely_count.off,
		     on ? &unlikely_count.off : &unlikely_count.on);
	if (!err)
		err = follow("likely", on ? &likely_count.on : &likely_count.off,
			     on ? &likely_count.off : &likely_count.on);
	return err;
}

static int __init test_static_key_flip_init(void)
{
	unsigned int here = get_cpu(), there;
	struct task_struct *thread;
	int err = 0;

	there = cpumask_any_but(cpu_online_mask, here);
	put_cpu();
	if (there >= nr_cpu_ids) {
		pr_err("needs two CPUs\n");
		return -EOPNOTSUPP;
	}
	thread = kthread_create(worker, NULL, "static_key_flip");
	if (IS_ERR(thread))
		return PTR_ERR(thread);
	kthread_bind(thread, there);
	wake_up_process(thread);

	/* The keys begin apart: the first flip brings both on. */
	for (seen = 0; seen < flips && !err; seen += !err)
		err = flip_once(!(seen & 1));
	kthread_stop(thread);

	if (!err && (unlikely_count.on + unlikely_count.off != passes ||
		     likely_count.on + likely_count.off != passes)) {
		pr_err("%lu passes, but %lu + %lu and %lu + %lu counted\n", passes,
		       unlikely_count.on, unlikely_count.off, likely_count.on, likely_count.off);
		err = -EIO;
	}
	return err;
}

static void __exit test_static_key_flip_exit(void)
{
}

module_init(test_static_key_flip_init);
module_exit(test_static_key_flip_exit);
MODULE_DESCRIPTION("Flip static keys under a running thread");
MODULE_LICENSE("GPL");
MODULE_INFO(test, "Y");
