// SPDX-License-Identifier: GPL-2.0-only
/*
 * Each sched_stat event fires without schedstats, and its delay is what
 * sched_switch and sched_wakeup of the same trace say of the task.
 */
#include "kselftest_harness.h"
#include "sched_stat.h"

#define ROUNDS	10
#define NAP_MS	50

FIXTURE(delay)
{
	struct trace trace;
	struct events events;
};

FIXTURE_SETUP(delay)
{
	const char *why = trace_open(&self->trace);

	memset(&self->events, 0, sizeof(self->events));
	if (why)
		SKIP(return, "%s", why);
	why = missing_event();
	ASSERT_EQ(NULL, why)
		TH_LOG("there is no event sched:%s", why);
	if (have_schedstats())
		ASSERT_EQ(0, set_schedstats(0));
}

FIXTURE_TEARDOWN(delay)
{
	free(self->events.e);
	trace_close(&self->trace);
	if (have_schedstats())
		set_schedstats(0);
}

/* Run the child to its end with the four events on, and judge it. */
#define JUDGE(child) ({							\
	pid_t pid_ = (child);						\
	int status;							\
									\
	ASSERT_EQ(pid_, waitpid(pid_, &status, 0));			\
	ASSERT_EQ(0, status)						\
		TH_LOG("the child failed: %#x", status);		\
	ASSERT_EQ(0, stat_all(&self->trace, 0));			\
	ASSERT_EQ(0, trace_read(&self->trace, &self->events));		\
	judge(&self->trace, &self->events, pid_,			\
	      mark_ts(&self->events, "enable"));			\
})

#define ENABLE() do {							\
	trace_mark(&self->trace, "enable");				\
	ASSERT_EQ(0, stat_all(&self->trace, 1));			\
} while (0)

TEST_F(delay, sleep)
{
	struct verdict r;
	pid_t pid;

	ENABLE();
	pid = fork();
	if (!pid) {
		become("sleep", 0);
		for (int i = 0; i < ROUNDS; i++)
			sleep_ms(NAP_MS);
		_exit(0);
	}
	r = JUDGE(pid);
	TH_LOG("%s", say(&r));
	EXPECT_GE(r.nr[1], ROUNDS);
	EXPECT_GE(r.sum[1] + r.nr[1] * self->trace.tick, ROUNDS * NAP_MS * MS);
	EXPECT_EQ(0, r.lost);
	EXPECT_TRUE(agrees(&r));
}

TEST_F(delay, wait)
{
	struct verdict r, s;
	pid_t pid, other;

	ENABLE();
	other = spinner("spin", 0);
	pid = fork();
	if (!pid) {
		become("wait", 0);
		spin_ms(800);
		_exit(0);
	}
	r = JUDGE(pid);
	end(other);
	s = judge(&self->trace, &self->events, other, mark_ts(&self->events, "enable"));
	TH_LOG("%s", say(&r));
	TH_LOG("%s", say(&s));
	EXPECT_GE(r.nr[0], 5);
	EXPECT_GE(s.nr[0], 5);
	/* two share one CPU: each waits for about half of the time */
	EXPECT_GE(r.sum[0] + s.sum[0], 400 * MS);
	EXPECT_TRUE(agrees(&r));
	EXPECT_TRUE(agrees(&s));
}

FIXTURE(kernel_sleep)
{
	struct trace trace;
	struct events events;
	int loaded;
};

FIXTURE_VARIANT(kernel_sleep)
{
	const char *parameter;
	int io;
};

FIXTURE_VARIANT_ADD(kernel_sleep, iowait) { PARAMETERS "io_ms", 1 };
FIXTURE_VARIANT_ADD(kernel_sleep, blocked) { PARAMETERS "block_ms", 0 };

FIXTURE_SETUP(kernel_sleep)
{
	const char *why = trace_open(&self->trace);

	self->loaded = 0;
	memset(&self->events, 0, sizeof(self->events));
	why = why ? why : load_module();
	if (why)
		SKIP(return, "%s", why);
	self->loaded = 1;
	why = missing_event();
	ASSERT_EQ(NULL, why)
		TH_LOG("there is no event sched:%s", why);
	if (have_schedstats())
		ASSERT_EQ(0, set_schedstats(0));
}

FIXTURE_TEARDOWN(kernel_sleep)
{
	free(self->events.e);
	trace_close(&self->trace);
	if (self->loaded)
		EXPECT_EQ(0, unload_module());
}

TEST_F(kernel_sleep, fires)
{
	struct verdict r;
	pid_t pid;

	ENABLE();
	pid = fork();
	if (!pid) {
		become("kernel", 0);
		for (int i = 0; i < ROUNDS; i++)
			if (write_file(variant->parameter, "50"))
				_exit(1);
		_exit(0);
	}
	r = JUDGE(pid);
	TH_LOG("%s", say(&r));
	EXPECT_GE(r.nr[3], ROUNDS);
	EXPECT_EQ(variant->io ? r.nr[3] : 0, r.nr[2]);
	EXPECT_EQ(variant->io ? r.sum[3] : 0, r.sum[2]);
	EXPECT_GE(r.sum[3] + r.nr[3] * self->trace.tick, ROUNDS * NAP_MS * MS);
	EXPECT_EQ(0, r.lost);
	EXPECT_TRUE(agrees(&r));
}

/* With schedstats on, what is reported is what is summed up, to the nanosecond. */
TEST_F(delay, equals_schedstats)
{
	long long sleep_sum, wait_sum, wait_count;
	int done[2], go[2];
	struct verdict r;
	char comm[16];
	pid_t pid, other;
	char c = 0;

	if (!have_schedstats())
		SKIP(return, "CONFIG_SCHEDSTATS is not set");
	ASSERT_EQ(0, set_schedstats(1));
	ASSERT_EQ(0, pipe(done) | pipe(go));
	ENABLE();
	other = spinner("spin", 0);
	/* the child waits before it can name itself; that wait is summed up, too */
	prctl(PR_GET_NAME, comm);
	prctl(PR_SET_NAME, PREFIX "-both");
	pid = fork();
	if (pid)
		prctl(PR_SET_NAME, comm);
	if (!pid) {
		become("both", 0);
		for (int i = 0; i < ROUNDS; i++) {
			sleep_ms(10);
			spin_ms(20);
		}
		/* asleep, so that nothing is added while the sums are read */
		_exit(write(done[1], &c, 1) != 1 || read(go[0], &c, 1) != 1);
	}
	ASSERT_EQ(1, read(done[0], &c, 1));
	ASSERT_EQ(0, wait_state(pid, 'S'));
	sleep_ms(200);	/* its dequeue may be delayed */
	ASSERT_EQ(0, stat_all(&self->trace, 0));
	sleep_sum = proc_sched(pid, "sum_sleep_runtime");
	wait_sum = proc_sched(pid, "wait_sum");
	wait_count = proc_sched(pid, "wait_count");
	end(other);
	ASSERT_EQ(1, write(go[1], &c, 1));
	r = JUDGE(pid);
	TH_LOG("%s", say(&r));
	EXPECT_GE(r.nr[0], ROUNDS);
	EXPECT_GE(r.nr[1], ROUNDS);
	EXPECT_EQ(wait_count, r.nr[0]);
	EXPECT_EQ(wait_sum, r.sum[0]);
	EXPECT_EQ(sleep_sum, r.sum[1] + r.sum[3]);
	EXPECT_TRUE(agrees(&r));
}

TEST_HARNESS_MAIN
