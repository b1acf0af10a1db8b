// SPDX-License-Identifier: GPL-2.0-only
/*
 * For the sched_stat tests: sleeps that user space cannot ask for, and a probe
 * of a module on a sched_stat tracepoint. All of it by writing to parameters.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/tracepoint.h>
#include <trace/events/sched.h>

/* What probes out of the tree have been written for. */
#define CHECK_PROTO(event)							\
	static_assert(__same_type(trace_##event, void (struct task_struct *, u64)))
CHECK_PROTO(sched_stat_wait);
CHECK_PROTO(sched_stat_sleep);
CHECK_PROTO(sched_stat_iowait);
CHECK_PROTO(sched_stat_blocked);

/* The writer sleeps for so many ms, uninterruptibly, for I/O or not. */
static int sleep_set(const char *val, const struct kernel_param *kp)
{
	bool io = *(bool *)kp->arg;
	unsigned int ms;
	long left;
	int err;

	err = kstrtouint(val, 10, &ms);
	if (err)
		return err;
	if (!ms || ms > 10000)
		return -EINVAL;

	/* a wake-up of somebody else's may come early: go on */
	for (left = msecs_to_jiffies(ms); left > 0; ) {
		set_current_state(TASK_UNINTERRUPTIBLE);
		left = io ? io_schedule_timeout(left) : schedule_timeout(left);
	}
	return 0;
}

static const struct kernel_param_ops sleep_ops = {
	.set = sleep_set,
};

static bool with_io = true, without_io;
module_param_cb(io_ms, &sleep_ops, &with_io, 0200);
MODULE_PARM_DESC(io_ms, "sleep so long in io_schedule_timeout()");
module_param_cb(block_ms, &sleep_ops, &without_io, 0200);
MODULE_PARM_DESC(block_ms, "sleep so long in schedule_timeout(), uninterruptibly");

/* The probe. */
static int pid;
module_param(pid, int, 0644);
MODULE_PARM_DESC(pid, "count events of this task only");

static unsigned long hits;
module_param(hits, ulong, 0644);
MODULE_PARM_DESC(hits, "events counted");

static unsigned long last_us;
module_param(last_us, ulong, 0444);
MODULE_PARM_DESC(last_us, "delay of the last of them");

static char wanted[32];
static struct tracepoint *attached;

static void probe(void *data, struct task_struct *tsk, u64 delay)
{
	if (tsk->pid != READ_ONCE(pid))
		return;
	WRITE_ONCE(hits, hits + 1);
	WRITE_ONCE(last_us, (unsigned long)delay / 1000);
}

static void find(struct tracepoint *tp, void *found)
{
	if (!strcmp(tp->name, wanted))
		*(struct tracepoint **)found = tp;
}

static void detach(void)
{
	if (!attached)
		return;
	tracepoint_probe_unregister(attached, probe, NULL);
	tracepoint_synchronize_unregister();
	attached = NULL;
}

/* Parameters are written one at a time, so this needs no lock of its own. */
static int probe_set(const char *val, const struct kernel_param *kp)
{
	struct tracepoint *tp = NULL;
	int err;

	strscpy(wanted, val, sizeof(wanted));
	strim(wanted);
	detach();
	if (!wanted[0])
		return 0;
	for_each_kernel_tracepoint(find, &tp);
	if (!tp)
		return -ENOENT;
	err = tracepoint_probe_register(tp, probe, NULL);
	if (!err)
		attached = tp;
	return err;
}

static const struct kernel_param_ops probe_ops = {
	.set = probe_set,
};

module_param_cb(probe, &probe_ops, NULL, 0200);
MODULE_PARM_DESC(probe, "attach to the tracepoint of this name, or detach");

static int __init test_sched_stat_init(void)
{
	return 0;
}
module_init(test_sched_stat_init);

static void __exit test_sched_stat_exit(void)
{
	detach();
}
module_exit(test_sched_stat_exit);

MODULE_DESCRIPTION("For the sched_stat selftests");
MODULE_LICENSE("GPL");
