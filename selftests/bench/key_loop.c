// SPDX-License-Identifier: GPL-2.0
/*
 * key_loop - what getppid() does, behind a static branch that is off, in a loop
 *
 * The loop of the 2011 thread (a branch in getppid's path), as a region of
 * interest in kernel code: interrupts are off inside, so that no tick falls into
 * it and the count is the same on every kernel whose __task_pid_nr_ns() is.
 * Loading it runs it: region 3, ROUNDS times CALLS calls.
 */
#include <linux/jump_label.h>
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>

#include "roi.h"

#define ROUNDS	10
#define CALLS	100

static DEFINE_STATIC_KEY_FALSE(key_loop_key);
static unsigned int taken;

static noinline pid_t parent_pid(void)
{
	pid_t pid;

	if (static_branch_unlikely(&key_loop_key))
		taken++;
	rcu_read_lock();
	pid = task_tgid_vnr(rcu_dereference(current->real_parent));
	rcu_read_unlock();
	return pid;
}

static int __init key_loop_init(void)
{
	unsigned long flags, sum = 0;
	unsigned int i, j;

	for (i = 0; i < ROUNDS; i++) {
		local_irq_save(flags);
		roi_start(3);
		for (j = 0; j < CALLS; j++)
			sum += (unsigned long)parent_pid();
		roi_stop(3);
		local_irq_restore(flags);
	}
	pr_info("key_loop: %u calls, pids add up to %lu, branch taken %u times\n",
		ROUNDS * CALLS, sum, taken);
	return taken ? -EINVAL : 0;
}

static void __exit key_loop_exit(void)
{
}

module_init(key_loop_init);
module_exit(key_loop_exit);
MODULE_DESCRIPTION("getppid's work behind a static branch, as a region of interest");
MODULE_LICENSE("GPL");
