// SPDX-License-Identifier: GPL-2.0-only
/*
 * What user space sees of the sched_stat events and of schedstats is the same
 * with CONFIG_SCHEDSTATS and without, and with a listener and without.
 */
#include <sys/klog.h>

#include "kselftest_harness.h"
#include "sched_stat.h"

/* Of every sched_stat event, but for the name and the ID. */
static const char fields[] =
	"\tfield:__data_loc char[] comm;\toffset:8;\tsize:4;\tsigned:0;\n"
	"\tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;\n"
	"\tfield:u64 delay;\toffset:16;\tsize:8;\tsigned:0;\n"
	"\n"
	"print fmt: \"comm=%s pid=%d delay=%Lu [ns]\", __get_str(comm), REC->pid, (unsigned long long)REC->delay\n";

FIXTURE(abi)
{
	struct trace trace;
};

FIXTURE_SETUP(abi)
{
	const char *why = trace_open(&self->trace);

	if (why)
		SKIP(return, "%s", why);
}

FIXTURE_TEARDOWN(abi)
{
	trace_close(&self->trace);
}

/*
 * The parameter of the command line still switches schedstats, if there are any.
 * This one goes first: others switch them off.
 */
TEST_F(abi, command_line)
{
	char *cmdline = read_file("/proc/cmdline");

	ASSERT_NE(NULL, cmdline);
	if (!strstr(cmdline, "schedstats=enable"))
		SKIP(return, "needs schedstats=enable on the command line");
	free(cmdline);
	if (!have_schedstats())
		SKIP(return, "CONFIG_SCHEDSTATS is not set");
	EXPECT_EQ(1, read_number("/proc/sys/kernel/sched_schedstats"));
	EXPECT_GE(proc_sched(1, "sum_sleep_runtime"), 1);
	EXPECT_GE(proc_sched(1, "wait_count"), 1);
	/* an event more or less makes no difference */
	trace_event(&self->trace, "sched_stat_wait", 1);
	trace_event(&self->trace, "sched_stat_wait", 0);
	EXPECT_EQ(1, read_number("/proc/sys/kernel/sched_schedstats"));
}

TEST_F(abi, format)
{
	for (int i = 0; i < 4; i++) {
		char path[96], name[48], *text, *common;

		snprintf(path, sizeof(path), TRACING "/events/sched/%s/format", stat_events[i]);
		text = read_file(path);
		ASSERT_NE(NULL, text)
			TH_LOG("there is no %s", path);
		snprintf(name, sizeof(name), "name: %s\nID: ", stat_events[i]);
		EXPECT_EQ(0, strncmp(text, name, strlen(name)));
		common = strstr(text, "\n\n");
		ASSERT_NE(NULL, common);
		EXPECT_STREQ(fields, common + 2);
		free(text);
	}
}

/* The files of schedstats are there if they are configured, and only then. */
TEST_F(abi, proc_files)
{
	int configured = config_is("CONFIG_SCHEDSTATS=y");

	if (access("/proc/config.gz", R_OK))
		SKIP(return, "CONFIG_IKCONFIG_PROC is not set");
	EXPECT_EQ(configured, have_schedstats());
	EXPECT_EQ(configured, !access("/proc/schedstat", F_OK));
	if (configured) {
		ASSERT_EQ(0, set_schedstats(0));
		trace_event(&self->trace, "sched_stat_wait", 1);
		EXPECT_EQ(0, read_number("/proc/sys/kernel/sched_schedstats"));
		trace_event(&self->trace, "sched_stat_wait", 0);
	}
	EXPECT_EQ(-1, proc_sched(getpid(), "wait_sum"));
	EXPECT_EQ(-1, proc_sched(getpid(), "sum_sleep_runtime"));
}

/* The kernel does not ask for schedstats when they are not needed. */
TEST_F(abi, no_hint)
{
	const char *why = missing_event();
	int size = klogctl(10 /* SYSLOG_ACTION_SIZE_BUFFER */, NULL, 0);
	char *log = calloc(1, size + 1);

	ASSERT_EQ(NULL, why)
		TH_LOG("there is no event sched:%s", why);
	ASSERT_EQ(0, stat_all(&self->trace, 1));
	sleep_ms(50);
	ASSERT_EQ(0, stat_all(&self->trace, 0));
	ASSERT_NE(NULL, log);
	ASSERT_GT(klogctl(3 /* SYSLOG_ACTION_READ_ALL */, log, size), 0);
	EXPECT_EQ(NULL, strstr(log, "require the kernel parameter schedstats"));
	free(log);
}

TEST_HARNESS_MAIN
