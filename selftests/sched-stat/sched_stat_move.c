// SPDX-License-Identifier: GPL-2.0-only
/*
 * The delays of tasks that are moved about while they wait: to another CPU, to
 * another class, cgroup or nice level, or by throttling. The wait of a task
 * that migrates is the sum of what it waited on either queue.
 */
#include <stdint.h>

#include "kselftest_harness.h"
#include "sched_stat.h"

#define CGROUP	"/tmp/sched_stat_cgroup"

FIXTURE(move)
{
	struct trace trace;
	struct events events;
	pid_t child[6];
	int cgroup;
};

FIXTURE_SETUP(move)
{
	const char *why = trace_open(&self->trace);

	memset(&self->events, 0, sizeof(self->events));
	memset(self->child, 0, sizeof(self->child));
	self->cgroup = 0;
	if (why)
		SKIP(return, "%s", why);
	why = missing_event();
	ASSERT_EQ(NULL, why)
		TH_LOG("there is no event sched:%s", why);
	if (have_schedstats())
		ASSERT_EQ(0, set_schedstats(0));
	trace_mark(&self->trace, "enable");
	ASSERT_EQ(0, stat_all(&self->trace, 1));
}

FIXTURE_TEARDOWN(move)
{
	for (int i = 0; i < 6; i++)
		end(self->child[i]);
	if (self->cgroup) {
		rmdir(CGROUP "/a/b");
		rmdir(CGROUP "/a");
		umount(CGROUP);
		rmdir(CGROUP);
	}
	write_file("/sys/devices/system/cpu/cpu1/online", "1");
	free(self->events.e);
	trace_close(&self->trace);
}

/* Stop tracing and hold each child against the oracle. */
#define JUDGE_ALL(min_wait) do {					\
	ASSERT_EQ(0, stat_all(&self->trace, 0));			\
	ASSERT_EQ(0, trace_read(&self->trace, &self->events));		\
	EXPECT_EQ(0, self->events.lost);				\
	for (int i_ = 0; i_ < 6; i_++) {				\
		struct verdict r_;					\
									\
		if (!self->child[i_])					\
			continue;					\
		r_ = judge(&self->trace, &self->events, self->child[i_],\
			   mark_ts(&self->events, "enable"));		\
		TH_LOG("task %d: %s", i_, say(&r_));	\
		EXPECT_GE(r_.nr[0], min_wait);				\
		EXPECT_EQ(0, r_.lost);					\
		EXPECT_TRUE(agrees(&r_));				\
	}								\
} while (0)

static int set_class(pid_t pid, int policy, int priority)
{
	struct sched_param param = { .sched_priority = priority };

	return sched_setscheduler(pid, policy, &param);
}

/* <linux/sched/types.h> and older libcs both define struct sched_param. */
struct deadline_attr {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

static int set_deadline(pid_t pid, int runtime_ms, int period_ms)
{
	struct deadline_attr attr = {
		.size = sizeof(attr),
		.policy = 6,	/* SCHED_DEADLINE */
		.runtime = runtime_ms * MS,
		.deadline = period_ms * MS,
		.period = period_ms * MS,
	};

	return syscall(SYS_sched_setattr, pid, &attr, 0);
}

/* Two waiters are pushed to and fro between two busy CPUs, 50 times each. */
TEST_F_TIMEOUT(move, affinity, 60)
{
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs two CPUs online");
	for (int i = 0; i < 4; i++)
		self->child[i] = spinner("move", i % 2);
	for (int i = 0; i < 50; i++) {
		ASSERT_EQ(0, pin(self->child[0], i % 2));
		ASSERT_EQ(0, pin(self->child[1], (i + 1) % 2));
		sleep_ms(7);
	}
	JUDGE_ALL(5);
}

/* The same to tasks of the rt class, one of which runs at a time. */
TEST_F_TIMEOUT(move, rt, 60)
{
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs two CPUs online");
	ASSERT_EQ(0, set_class(0, SCHED_FIFO, 50));
	for (int i = 0; i < 4; i++) {
		self->child[i] = spinner("rt", i % 2);
		ASSERT_EQ(0, set_class(self->child[i], SCHED_RR, 10));
	}
	for (int i = 0; i < 50; i++) {
		ASSERT_EQ(0, pin(self->child[0], i % 2));
		ASSERT_EQ(0, pin(self->child[1], (i + 1) % 2));
		sleep_ms(7);
	}
	sleep_ms(600);	/* round robin */
	ASSERT_EQ(0, set_class(0, SCHED_OTHER, 0));
	JUDGE_ALL(2);
}

/* A sleep of a rt task, and one that a change of class falls into. */
TEST_F(move, rt_sleep)
{
	int fd[2];

	ASSERT_EQ(0, pipe(fd));
	self->child[0] = reader("sleep", 0, fd[0]);
	ASSERT_EQ(0, wait_state(self->child[0], 'S'));
	ASSERT_EQ(0, set_class(self->child[0], SCHED_FIFO, 10));
	for (int i = 0; i < 4; i++) {
		sleep_ms(50);
		ASSERT_EQ(1, write(fd[1], "", 1));
		ASSERT_EQ(0, wait_state(self->child[0], 'S'));
	}
	ASSERT_EQ(0, stat_all(&self->trace, 0));
	ASSERT_EQ(0, trace_read(&self->trace, &self->events));
	struct verdict r = judge(&self->trace, &self->events, self->child[0],
				 mark_ts(&self->events, "enable"));
	TH_LOG("%s", say(&r));
	EXPECT_GE(r.nr[1], 4);
	EXPECT_EQ(0, r.lost);
	EXPECT_TRUE(agrees(&r));
}

/*
 * Deadline tasks wait for each other and for their replenishment; their sleeps
 * are not reported by any kernel since the deadline servers.
 */
TEST_F_TIMEOUT(move, deadline, 60)
{
	struct verdict r;
	int nr = 0;

	for (int i = 0; i < 3; i++) {
		self->child[i] = fork();
		if (self->child[i])
			continue;
		become("dl", -1);
		for (int n = 0;; n++) {
			spin_ms(n % 13);
			sleep_ms(n % 5);
		}
	}
	for (int i = 0; i < 3; i++)
		ASSERT_EQ(0, set_deadline(self->child[i], 10, 40 + i * 10));
	sleep_ms(2000);
	for (int i = 0; i < 3; i++)
		ASSERT_EQ(0, set_class(self->child[i], SCHED_OTHER, 0));
	sleep_ms(100);
	ASSERT_EQ(0, stat_all(&self->trace, 0));
	ASSERT_EQ(0, trace_read(&self->trace, &self->events));
	for (int i = 0; i < 3; i++) {
		r = judge(&self->trace, &self->events, self->child[i],
			  mark_ts(&self->events, "enable"));
		TH_LOG("max %lld us, %s", r.max / 1000, say(&r));
		nr += r.nr[0];
		/* throttled is not waiting, so sched_switch only bounds it */
		EXPECT_LE(r.max, 400 * MS);
	}
	EXPECT_GE(nr, 10);
}

/* Nice changes requeue a waiting task: two waits in place of one. */
TEST_F_TIMEOUT(move, nice, 60)
{
	for (int i = 0; i < 3; i++)
		self->child[i] = spinner("nice", 0);
	pin(0, 1);
	for (int i = 0; i < 100; i++) {
		ASSERT_EQ(0, syscall(SYS_setpriority, 0, self->child[i % 3], i % 10));
		sleep_ms(5);
	}
	JUDGE_ALL(30);
}

/* A CPU goes away under its waiting tasks, and comes back. */
TEST_F_TIMEOUT(move, hotplug, 60)
{
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs two CPUs online");
	if (access("/sys/devices/system/cpu/cpu1/online", W_OK))
		SKIP(return, "CPU 1 cannot go offline (CONFIG_HOTPLUG_CPU is not set?)");
	for (int i = 0; i < 4; i++)
		self->child[i] = spinner("plug", -1);
	for (int i = 0; i < 10; i++) {
		ASSERT_EQ(0, write_file("/sys/devices/system/cpu/cpu1/online", "0"));
		sleep_ms(30);
		ASSERT_EQ(0, write_file("/sys/devices/system/cpu/cpu1/online", "1"));
		sleep_ms(30);
	}
	JUDGE_ALL(3);
}

static int cgroup_file(const char *file, const char *text)
{
	char path[96];

	snprintf(path, sizeof(path), CGROUP "/%s", file);
	return write_file(path, text);
}

/* Moves between groups, one of which is throttled all the time. */
TEST_F_TIMEOUT(move, cgroup, 90)
{
	char pid[16];
	int nr;

	if ((mkdir(CGROUP, 0700) && errno != EEXIST) ||
	    mount("cgroup2", CGROUP, "cgroup2", 0, NULL))
		SKIP(return, "cannot mount cgroup2 (CONFIG_CGROUPS is not set?)");
	self->cgroup = 1;
	if (cgroup_file("cgroup.subtree_control", "+cpu") || mkdir(CGROUP "/a", 0700) ||
	    cgroup_file("a/cgroup.subtree_control", "+cpu") || mkdir(CGROUP "/a/b", 0700))
		SKIP(return, "no cpu controller (CONFIG_CGROUP_SCHED is not set?)");
	if (cgroup_file("a/b/cpu.max", "10000 50000"))
		SKIP(return, "no cpu.max (CONFIG_CFS_BANDWIDTH is not set?)");
	for (int i = 0; i < 3; i++)
		self->child[i] = spinner("group", 0);
	pin(0, 1);
	for (int i = 0; i < 60; i++) {
		snprintf(pid, sizeof(pid), "%d", self->child[i % 3]);
		ASSERT_EQ(0, cgroup_file(i % 2 ? "a/b/cgroup.procs" : "cgroup.procs", pid));
		sleep_ms(20);
	}
	for (int i = 0; i < 3; i++) {
		snprintf(pid, sizeof(pid), "%d", self->child[i]);
		ASSERT_EQ(0, cgroup_file("cgroup.procs", pid));
	}
	ASSERT_EQ(0, stat_all(&self->trace, 0));
	ASSERT_EQ(0, trace_read(&self->trace, &self->events));
	nr = 0;
	for (int i = 0; i < 3; i++) {
		struct verdict r = judge(&self->trace, &self->events, self->child[i],
					 mark_ts(&self->events, "enable"));

		TH_LOG("max %lld us, %s", r.max / 1000, say(&r));
		nr += r.nr[0];
		/* throttled is not waiting, so sched_switch only bounds it */
		EXPECT_LE(r.max, 3000 * MS);
	}
	EXPECT_GE(nr, 20);
}

/* Tasks that live for a moment, and share nothing with their parents' stamps. */
TEST_F_TIMEOUT(move, fork_storm, 60)
{
	int wrong = 0, off = 0, seen = 0;
	long long since;
	pid_t pid[100];

	for (int i = 0; i < 100; i++) {
		pid[i] = fork();
		if (!pid[i]) {
			become("fork", -1);
			spin_ms(i % 3);
			if (i % 4 == 0)
				sleep_ms(2);
			if (i % 8 == 0)
				execl("/bin/true", "true", NULL);
			_exit(0);
		}
		if (i % 10 == 9)
			for (int n = i - 9; n <= i; n++)
				waitpid(pid[n], NULL, 0);
	}
	ASSERT_EQ(0, stat_all(&self->trace, 0));
	ASSERT_EQ(0, trace_read(&self->trace, &self->events));
	since = mark_ts(&self->events, "enable");
	for (int i = 0; i < 100; i++) {
		struct verdict r = judge(&self->trace, &self->events, pid[i], since);

		seen += total(&r) > 0;
		wrong += r.wrong;
		off += !agrees(&r);
		EXPECT_EQ(0, r.wrong)
			TH_LOG("fork %d: %s", i, say(&r));
	}
	TH_LOG("%d of 100 tasks had events, %d disagree, %d of them badly", seen, off, wrong);
	EXPECT_LE(off, 5);	/* few events each, so one that is off weighs much */
	EXPECT_GE(seen, 50);
}

TEST_HARNESS_MAIN
