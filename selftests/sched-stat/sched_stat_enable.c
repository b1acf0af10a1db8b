// SPDX-License-Identifier: GPL-2.0-only
/*
 * Switch the sched_stat events on and off while tasks wait and sleep. What was
 * under way when they came on must not be reported, or only for the part since
 * then; what begins afterwards must be, however soon. In the end nobody counts
 * on the kernel's key any more, which shows in that a sleep that began with all
 * events off is not reported when they are on again.
 */
#include "kselftest_harness.h"
#include "sched_stat.h"

FIXTURE(enable)
{
	struct trace trace;
	struct events events;
	int pipe[2];
	pid_t child[4];
};

FIXTURE_SETUP(enable)
{
	const char *why = trace_open(&self->trace);

	memset(&self->events, 0, sizeof(self->events));
	memset(self->child, 0, sizeof(self->child));
	if (why)
		SKIP(return, "%s", why);
	why = missing_event();
	ASSERT_EQ(NULL, why)
		TH_LOG("there is no event sched:%s", why);
	ASSERT_EQ(0, pipe(self->pipe));
	if (have_schedstats())
		ASSERT_EQ(0, set_schedstats(0));
}

FIXTURE_TEARDOWN(enable)
{
	for (int i = 0; i < 4; i++)
		end(self->child[i]);
	free(self->events.e);
	trace_close(&self->trace);
	if (have_schedstats())
		set_schedstats(0);
}

#define ENABLE(mark) do {						\
	trace_mark(&self->trace, mark);					\
	ASSERT_EQ(0, stat_all(&self->trace, 1));			\
} while (0)

#define DISABLE() ASSERT_EQ(0, stat_all(&self->trace, 0))

#define READ_TRACE() do {						\
	free(self->events.e);						\
	ASSERT_EQ(0, trace_read(&self->trace, &self->events));		\
} while (0)

#define WAKE()	ASSERT_EQ(1, write(self->pipe[1], "", 1))

/* A task that sleeps when the events come on: its next sleep is reported. */
TEST_F(enable, sleeping)
{
	struct verdict r;

	self->child[0] = reader("sleep", 0, self->pipe[0]);
	ASSERT_EQ(0, wait_state(self->child[0], 'S'));
	sleep_ms(300);
	ENABLE("enable");
	sleep_ms(100);
	WAKE();				/* from the sleep that began before */
	sleep_ms(200);
	WAKE();				/* from one that did not */
	sleep_ms(100);
	DISABLE();
	READ_TRACE();
	r = judge(&self->trace, &self->events, self->child[0],
		  mark_ts(&self->events, "enable"));
	TH_LOG("%s", say(&r));
	EXPECT_EQ(1, r.nr[1]);
	EXPECT_GE(r.sum[1], 150 * MS);
	EXPECT_TRUE(agrees(&r));
}

/* Three tasks on one CPU, so two of them wait when the events come on. */
TEST_F(enable, waiting)
{
	int nr = 0;

	for (int i = 0; i < 3; i++)
		self->child[i] = spinner("wait", 0);
	sleep_ms(300);
	ENABLE("enable");
	sleep_ms(500);
	DISABLE();
	READ_TRACE();
	for (int i = 0; i < 3; i++) {
		struct verdict r = judge(&self->trace, &self->events, self->child[i],
					 mark_ts(&self->events, "enable"));

		TH_LOG("%s", say(&r));
		EXPECT_TRUE(agrees(&r));
		nr += r.nr[0];
	}
	EXPECT_GE(nr, 6);
}

/* A sleep that begins at once is reported, 20 times out of 20. */
TEST_F(enable, at_once)
{
	for (int i = 0; i < 20; i++) {
		long long began;
		struct verdict r;
		char comm[16];

		prctl(PR_GET_NAME, comm);
		prctl(PR_SET_NAME, PREFIX "-self");
		trace_clear(&self->trace);
		ENABLE("enable");
		began = now_ns();
		sleep_ms(20);
		DISABLE();
		prctl(PR_SET_NAME, comm);
		READ_TRACE();
		r = judge(&self->trace, &self->events, getpid(),
			  mark_ts(&self->events, "enable"));
		EXPECT_GE(r.nr[1], 1)
			TH_LOG("round %d: %s", i, say(&r));
		EXPECT_GE(r.sum[1] + 3 * self->trace.tick, 20 * MS);
		EXPECT_TRUE(agrees(&r))
			TH_LOG("round %d, %lld us: %s", i,
			       (now_ns() - began) / 1000, say(&r));
	}
}

/* Off for two seconds in the middle of a sleep, and of a wait. */
TEST_F(enable, off_window)
{
	struct verdict r;

	self->child[0] = reader("sleep", 0, self->pipe[0]);
	for (int i = 1; i < 4; i++)
		self->child[i] = spinner("wait", 0);
	ASSERT_EQ(0, wait_state(self->child[0], 'S'));
	ENABLE("first");
	WAKE();
	sleep_ms(300);
	DISABLE();			/* everybody has a stamp now */
	sleep_ms(1000);
	WAKE();				/* nobody sees it sleep again */
	sleep_ms(1000);
	trace_clear(&self->trace);
	ENABLE("enable");
	WAKE();
	sleep_ms(300);
	WAKE();
	sleep_ms(300);
	DISABLE();
	READ_TRACE();
	for (int i = 0; i < 4; i++) {
		r = judge(&self->trace, &self->events, self->child[i],
			  mark_ts(&self->events, "enable"));
		TH_LOG("%s", say(&r));
		EXPECT_LE(r.max, 900 * MS);
		EXPECT_GE(r.nr[0], 1);
		EXPECT_TRUE(agrees(&r));
	}
}

/* The same with the sysctl: the sums, too, are of what was seen as a whole. */
TEST_F(enable, schedstats_off_window)
{
	long long sleep_max, wait_max = 0;

	if (!have_schedstats())
		SKIP(return, "CONFIG_SCHEDSTATS is not set");
	self->child[0] = reader("sleep", 0, self->pipe[0]);
	self->child[1] = spinner("wait", 0);
	self->child[2] = spinner("wait", 0);
	ASSERT_EQ(0, wait_state(self->child[0], 'S'));
	ASSERT_EQ(0, set_schedstats(1));
	WAKE();
	sleep_ms(300);
	ASSERT_EQ(0, set_schedstats(0));
	sleep_ms(1000);
	WAKE();
	sleep_ms(1000);
	ASSERT_EQ(0, set_schedstats(1));
	WAKE();
	sleep_ms(300);
	WAKE();
	sleep_ms(300);
	sleep_max = proc_sched(self->child[0], "sleep_max");
	for (int i = 1; i < 3; i++) {	/* one of them waited at the disable */
		long long ns = proc_sched(self->child[i], "wait_max");

		wait_max = ns > wait_max ? ns : wait_max;
	}
	TH_LOG("sleep_max %lld us, wait_max %lld us", sleep_max / 1000, wait_max / 1000);
	EXPECT_GE(sleep_max, 100 * MS);
	EXPECT_LE(sleep_max, 900 * MS);
	EXPECT_GT(wait_max, 0);
	EXPECT_LE(wait_max, 900 * MS);
	ASSERT_EQ(0, set_schedstats(0));
}

/* A listener changes nothing for schedstats, and they fire nothing. */
TEST_F(enable, schedstats_are_independent)
{
	char path[64], *text;
	struct verdict r;

	if (!have_schedstats())
		SKIP(return, "CONFIG_SCHEDSTATS is not set");
	self->child[0] = reader("sleep", 0, self->pipe[0]);
	ASSERT_EQ(0, wait_state(self->child[0], 'S'));
	ENABLE("enable");
	WAKE();
	sleep_ms(100);
	WAKE();
	sleep_ms(100);
	EXPECT_EQ(0, read_number("/proc/sys/kernel/sched_schedstats"));
	EXPECT_EQ(-1, proc_sched(self->child[0], "sum_sleep_runtime"));
	snprintf(path, sizeof(path), "/proc/%d/sched", self->child[0]);
	text = read_file(path);
	ASSERT_NE(NULL, text);
	EXPECT_EQ(NULL, strstr(text, "wait_sum"));
	free(text);

	/* a sleep that began before them does not count, listener or not */
	ASSERT_EQ(0, set_schedstats(1));
	WAKE();
	sleep_ms(200);
	EXPECT_EQ(0, proc_sched(self->child[0], "sum_sleep_runtime"));
	WAKE();
	sleep_ms(100);
	EXPECT_GE(proc_sched(self->child[0], "sum_sleep_runtime"), 150 * MS);
	EXPECT_LE(proc_sched(self->child[0], "sum_sleep_runtime"), 700 * MS);

	/* the listener goes, schedstats stay */
	DISABLE();
	trace_clear(&self->trace);
	trace_mark(&self->trace, "off");
	WAKE();
	sleep_ms(100);
	EXPECT_GE(proc_sched(self->child[0], "sum_sleep_runtime"), 200 * MS);
	READ_TRACE();
	r = judge(&self->trace, &self->events, self->child[0],
		  mark_ts(&self->events, "off"));
	EXPECT_EQ(0, total(&r));

	/* what they stamped is good for a listener that comes later */
	trace_clear(&self->trace);
	trace_mark(&self->trace, "off");
	ENABLE("enable");
	WAKE();
	sleep_ms(100);
	READ_TRACE();
	r = judge(&self->trace, &self->events, self->child[0], 1);
	TH_LOG("%s", say(&r));
	EXPECT_EQ(1, r.nr[1]);
	EXPECT_GE(r.sum[1], 50 * MS);
	DISABLE();
	ASSERT_EQ(0, set_schedstats(0));
}

static int cpu_online(int cpu, int on)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
	return write_file(path, on ? "1" : "0");
}

/*
 * 200 times off and on under load, with a CPU that comes and goes; or, for a
 * long test, for as many seconds as SCHED_STAT_SECONDS in the environment says.
 */
TEST_F_TIMEOUT(enable, toggles_under_load, 3600)
{
	const char *seconds = getenv("SCHED_STAT_SECONDS");
	long long began = now_ns();
	struct verdict r;
	pid_t load[4];
	int status;

	for (int i = 0; i < 4; i++) {
		load[i] = fork();
		if (load[i])
			continue;
		become("load", -1);
		for (int n = 0;; n++) {
			pid_t pid;

			sleep_ms(1 + n % 3);
			spin_ms(n % 5);
			if (n % 16)
				continue;
			pid = fork();
			if (!pid)
				_exit(0);
			waitpid(pid, NULL, 0);
		}
	}
	self->child[0] = fork();
	if (!self->child[0]) {
		become("hotplug", 0);
		for (;;) {
			if (cpu_online(1, 0) || cpu_online(1, 1))
				_exit(1);
			sleep_ms(20);
		}
	}
	trace_mark(&self->trace, "enable");
	for (int i = 0; seconds ? now_ns() - began < atoi(seconds) * SEC : i < 100; i++) {
		ASSERT_EQ(0, stat_all(&self->trace, 1));
		sleep_ms(i % 4 * 5);
		DISABLE();
		sleep_ms(i % 3 * 5);
		if (i % 1000 == 999)
			TH_LOG("%d times on and off, %lld s", i + 1, (now_ns() - began) / SEC);
	}
	EXPECT_EQ(0, waitpid(self->child[0], &status, WNOHANG))
		TH_LOG("CPU 1 does not come and go");
	end(self->child[0]);
	self->child[0] = 0;
	cpu_online(1, 1);
	READ_TRACE();
	for (int i = 0; i < 4; i++) {
		end(load[i]);
		/* bounded by the time since the first enable is all we ask */
		r = judge(&self->trace, &self->events, load[i],
			  mark_ts(&self->events, "enable"));
		TH_LOG("max %lld us, %s", r.max / 1000, say(&r));
		EXPECT_GE(total(&r), 1);
		EXPECT_LE(r.max, 5 * SEC);
	}

	/* the key is off: a sleep that begins now is not known later */
	trace_clear(&self->trace);
	self->child[1] = reader("sleep", 0, self->pipe[0]);
	ASSERT_EQ(0, wait_state(self->child[1], 'S'));
	sleep_ms(200);
	ENABLE("again");
	WAKE();
	sleep_ms(100);
	DISABLE();
	READ_TRACE();
	r = judge(&self->trace, &self->events, self->child[1],
		  mark_ts(&self->events, "again"));
	TH_LOG("%s", say(&r));
	EXPECT_EQ(0, r.nr[1]);
	EXPECT_TRUE(agrees(&r));
}

/*
 * With trace_event=sched:sched_stat_sleep,sched:sched_stat_wait on the kernel's
 * command line: events from boot on, none longer than the kernel is up.
 */
TEST(boot)
{
	struct trace top = { .dir = TRACING };
	char *cmdline = read_file("/proc/cmdline");
	int nr = 0, wrong = 0;
	struct events v;

	ASSERT_NE(NULL, cmdline);
	if (!strstr(cmdline, "trace_event=sched:sched_stat"))
		SKIP(return, "needs trace_event=sched:sched_stat_sleep on the command line");
	free(cmdline);
	if (access(TRACING "/events", F_OK))
		ASSERT_EQ(0, mount("tracefs", TRACING, "tracefs", 0, NULL));
	ASSERT_EQ(0, trace_read(&top, &v));
	for (size_t i = 0; i < v.nr; i++) {
		if (v.e[i].type < STAT_WAIT)
			continue;
		nr++;
		if (v.e[i].delay > v.e[i].ts + SEC / 10) {
			wrong++;
			TH_LOG("at %lld us a delay of %lld us", v.e[i].ts / 1000,
			       v.e[i].delay / 1000);
		}
	}
	TH_LOG("%d events since boot", nr);
	EXPECT_GE(nr, 10);
	EXPECT_EQ(0, wrong);
	free(v.e);
	EXPECT_EQ(0, write_file(TRACING "/set_event", "!sched:sched_stat_sleep"));
	write_file(TRACING "/events/sched/enable", "0");
}

TEST_HARNESS_MAIN
