// SPDX-License-Identifier: GPL-2.0
/*
 * model - run the bookkeeping of kernel/sched/stats.c against a model of a task
 *
 * The task runs, sleeps, blocks, waits and migrates while it waits, between two
 * queues whose clocks differ. In between, at any point, the four tracepoints get
 * and lose their probe and schedstats go on and off. The model knows when each
 * wait and sleep began, and so which events must come, with what delay, and what
 * schedstats must sum up. Time and the order of things come from a seed.
 *
 * Built with HOOKS, the part of stats.c up to /proc/schedstat, and with
 * CONFIG_SCHEDSTATS or without. Prints "ok N" (events) or what is wrong, exit 1.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long u64;
typedef long long s64;

/* The kernel, as far as the hooks see it; one CPU at a time, so no ordering. */
#define CONFIG_TRACEPOINTS		1
struct key { int count; };
#define DEFINE_STATIC_KEY_FALSE(name)	struct key name
#define static_key_enabled(key)		((key)->count > 0)
#define static_branch_inc(key)		((key)->count++)
#define static_branch_dec(key)		((key)->count--)
#define static_branch_enable(key)	((key)->count = 1)
#define static_branch_disable(key)	((key)->count = 0)
#define DEFINE_MUTEX(name)		int name
#define guard(kind)			(void)
#define lockdep_assert_held(lock)	do { } while (0)
#define cond_synchronize_rcu(state)	do { } while (0)
#define get_state_synchronize_rcu()	0
#define READ_ONCE(var)			(var)
#define WRITE_ONCE(var, val)		((var) = (val))
#define smp_rmb()			do { } while (0)
#define likely(cond)			(cond)
#define unlikely(cond)			(cond)
#define max(a, b)			((a) > (b) ? (a) : (b))
#define TASK_INTERRUPTIBLE		1
#define TASK_UNINTERRUPTIBLE		2

enum sched_stamp_kind {
	SCHED_STAMP_NONE, SCHED_STAMP_WAIT, SCHED_STAMP_WAITED, SCHED_STAMP_SLEEP,
	SCHED_STAMP_BLOCK,
};

struct sched_stamp {
	u64 time;
	unsigned int epoch, kind;
};

struct sched_statistics {
	struct sched_stamp stamp;
	u64 wait_max, wait_count, wait_sum, iowait_count, iowait_sum, sleep_max, block_max;
	s64 sum_sleep_runtime, sum_block_runtime;
};

struct task_struct {
	struct sched_statistics stats;
	unsigned int __state;
	bool in_iowait, migrating;
};

struct rq { u64 clock; };

#define rq_clock(rq)			((rq)->clock)
#define task_on_rq_migrating(p)		((p)->migrating)
#define account_scheduler_latency(p, us, inter)	do { } while (0)
#ifdef CONFIG_SCHEDSTATS
extern struct key sched_schedstats;
#define schedstat_enabled()		(sched_schedstats.count > 0)
#define schedstat_val(var)		(var)
#define __schedstat_set(var, val)	((var) = (val))
#define __schedstat_inc(var)		((var)++)
#define __schedstat_add(var, amt)	((var) += (amt))
#else
#define schedstat_val(var)		0
#define __schedstat_set(var, val)	do { } while (0)
#define __schedstat_inc(var)		do { } while (0)
#define __schedstat_add(var, amt)	do { } while (0)
#endif

static struct sched_stamp *sched_stamp(struct task_struct *p, struct sched_statistics *stats)
{
	(void)p;
	return &stats->stamp;
}

enum { WAIT, SLEEP, IOWAIT, BLOCKED, EVENTS };

static struct {
	bool probe;
	int fired, due;
	u64 delay;
} event[EVENTS];

static void fire(int which, u64 delay)
{
	if (!event[which].probe)
		return;
	event[which].fired++;
	event[which].delay = delay;
}

#define trace_sched_stat_wait(p, delay)		fire(WAIT, delay)
#define trace_sched_stat_sleep(p, delay)	fire(SLEEP, delay)
#define trace_sched_stat_iowait(p, delay)	fire(IOWAIT, delay)
#define trace_sched_stat_blocked(p, delay)	fire(BLOCKED, delay)

#include HOOKS

/* The model. Times of its own are steps, of which there are many in a tick. */

#define STEPS	1000000

static struct task_struct task;
static struct rq rq[2] = { { 1000 }, { 777000 } };
static unsigned long step;
static unsigned long key_since, stats_since;	/* the step of the enable */
static int users;
static bool stats_on;
static u64 wait_sum, wait_count, sleep_sum;

#define ACTIVE()	static_key_enabled(&sched_stat_key)

static void probe(int which, bool on)
{
	if (event[which].probe == on)
		return;
	step++;
	event[which].probe = on;
	if (on) {
		sched_stat_regfunc();
		if (!users++)
			key_since = step;
	} else {
		sched_stat_unregfunc();
		users--;
	}
}

static void schedstats(bool on)
{
#ifdef CONFIG_SCHEDSTATS
	if (stats_on == on)
		return;
	step++;
	stats_on = on;
	set_schedstats(on);
	if (on) {
		stats_since = step;
		if (!users++)
			key_since = step;
	} else {
		users--;
	}
#else
	(void)on;
#endif
}

static void toggle(void)
{
	if (rand() % 8 == 0)
		schedstats(rand() % 2);
	else if (rand() % 8 == 0)
		for (int i = 0; i < EVENTS; i++)
			probe(i, false);
	else
		probe(rand() % EVENTS, rand() % 2);
}

int main(int argc, char **argv)
{
	enum { RUNS, WAITS, SLEEPS } state = RUNS;
	struct task_struct *p = &task;
	unsigned long began = 0;	/* the step of the present wait or sleep */
	u64 length = 0;			/* of it so far, without skew */
	unsigned long events = 0;
	int cpu = 0, how = 0;

	srand(argc > 1 ? (unsigned int)atoi(argv[1]) : 1);
	while (step < STEPS) {
		u64 tick = (u64)rand() % 1000 + 1;
		bool seen, counts;

		step++;
		rq[0].clock += tick;
		rq[1].clock += tick;
		length += tick;
		for (int i = 0; i < EVENTS; i++)
			event[i].fired = event[i].due = 0;
		seen = users && began >= key_since;
		counts = stats_on && began >= stats_since;

		if (rand() % 8 == 0) {
			toggle();
		} else if (state == WAITS && rand() % 4 == 0) {
			/* migrates; what it waited before is forgotten with the key off */
			p->migrating = true;
			if (ACTIVE())
				__update_stats_wait_end(&rq[cpu], p, &p->stats);
			if (rand() % 2)
				toggle();
			cpu = !cpu;
			if (ACTIVE()) {
				__update_stats_wait_start(&rq[cpu], p, &p->stats);
				if (began < key_since) {
					began = step;
					length = 0;
				}
			}
			p->migrating = false;
		} else if (state == RUNS) {
			how = rand() % 3;
			state = how ? SLEEPS : WAITS;
			p->__state = (unsigned int)how;
			p->in_iowait = how == TASK_UNINTERRUPTIBLE && rand() % 2;
			if (ACTIVE() && how)
				__update_stats_dequeue_sleeper(&rq[cpu], p, &p->stats);
			else if (ACTIVE())
				__update_stats_wait_start(&rq[cpu], p, &p->stats);
			began = step;
			length = 0;
		} else if (state == SLEEPS) {
			if (ACTIVE())
				__update_stats_enqueue_sleeper(&rq[cpu], p, &p->stats);
			event[SLEEP].due = seen && how == TASK_INTERRUPTIBLE;
			event[BLOCKED].due = seen && how == TASK_UNINTERRUPTIBLE;
			event[IOWAIT].due = event[BLOCKED].due && p->in_iowait;
			sleep_sum += seen && counts ? length : 0;
			for (int i = SLEEP; i < EVENTS; i++)
				if (event[i].fired && event[i].delay != length)
					event[i].due = -1;
			if (ACTIVE())
				__update_stats_wait_start(&rq[cpu], p, &p->stats);
			state = WAITS;
			began = step;
			length = 0;
		} else {
			if (ACTIVE())
				__update_stats_wait_end(&rq[cpu], p, &p->stats);
			event[WAIT].due = seen;
			if (event[WAIT].fired && event[WAIT].delay != length)
				event[WAIT].due = -1;
			wait_sum += seen && counts ? length : 0;
			wait_count += seen && counts;
			state = RUNS;
		}

		for (int i = 0; i < EVENTS; i++) {
			int due = event[i].probe ? event[i].due : 0;

			events += (unsigned long)event[i].fired;
			if (event[i].fired == due)
				continue;
			printf("step %lu, event %d: %d fired, %d due\n", step, i,
			       event[i].fired, due);
			return 1;
		}
	}
#ifdef CONFIG_SCHEDSTATS
	if (wait_sum != p->stats.wait_sum || wait_count != p->stats.wait_count ||
	    sleep_sum != (u64)p->stats.sum_sleep_runtime) {
		printf("waits %llu sum %llu, due %llu sum %llu; sleeps sum %llu, due %llu\n",
		       p->stats.wait_count, p->stats.wait_sum, wait_count, wait_sum,
		       (u64)p->stats.sum_sleep_runtime, sleep_sum);
		return 1;
	}
#else
	(void)wait_sum;
	(void)wait_count;
	(void)sleep_sum;
#endif
	printf("ok %lu\n", events);
	return 0;
}
