// SPDX-License-Identifier: GPL-2.0-only
/*
 * How often order-1 pages need the buddy lists, and with them zone->lock, and
 * what stays on the per-CPU lists (PCP).
 *
 * test_modules/test_pcp_order1.ko does the allocations and counts; this
 * program loads it, reads the counts and judges them by the batch that
 * /proc/zoneinfo has for the zone: N blocks of order o taken a batch at a time
 * are N / (batch >> o) refills.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "kselftest_harness.h"

#define MODULE		"test_pcp_order1"
#define STORM		"test_pcp_storm"
#define BLOCKS		4096
#define MAX_ROUNDS	8
#define TIMEOUT		150

/* What /proc/zoneinfo says of one zone; fields that are missing are -1. */
struct zone {
	long free;
	long high;		/* the watermark */
	long nr_pcp;		/* on all CPUs' lists */
	long count, batch, high_min;	/* of one CPU's list */
	long list_high;
};

/* What the module says of its last run. */
struct result {
	char zone[32];
	long node;
	long strays, miscounts, free_lost;
	long count, listed;	/* of the CPU's list, at the end */
	long allocs[MAX_ROUNDS], frees[MAX_ROUNDS], refill_max[MAX_ROUNDS];
	long single_allocs[MAX_ROUNDS], single_refill_max[MAX_ROUNDS];
};

/* Read CPU's part of a zone; 0 if there is such a zone and it has that CPU. */
static int read_zone(const char *name, long node, int cpu, struct zone *z)
{
	char line[256], zone_name[32];
	long n, now_cpu = -1, v;
	int in_it = 0;
	FILE *f = fopen("/proc/zoneinfo", "r");

	if (!f)
		return -1;
	memset(z, -1, sizeof(*z));
	z->nr_pcp = 0;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "Node %ld, zone %31s", &n, zone_name) == 2)
			in_it = n == node && !strcmp(zone_name, name);
		if (!in_it)
			continue;
		if (sscanf(line, " pages free %ld", &v) == 1)
			z->free = v;
		if (sscanf(line, " high %ld", &v) == 1)
			z->high = v;
		if (sscanf(line, " cpu: %ld", &v) == 1)
			now_cpu = v;
		if (sscanf(line, " count: %ld", &v) == 1)
			z->nr_pcp += v;
		if (now_cpu != cpu)
			continue;
		if (sscanf(line, " count: %ld", &v) == 1)
			z->count = v;
		if (sscanf(line, " high: %ld", &v) == 1)
			z->list_high = v;
		if (sscanf(line, " batch: %ld", &v) == 1)
			z->batch = v;
		if (sscanf(line, " high_min: %ld", &v) == 1)
			z->high_min = v;
	}
	fclose(f);
	return z->batch > 0 ? 0 : -1;
}

/* Write a number to a file below /proc or /sys; 0 if that was done. */
static int put_number(const char *path, long v)
{
	FILE *f = fopen(path, "w");
	int bad;

	if (!f)
		return -1;
	bad = fprintf(f, "%ld\n", v) < 0;
	return fclose(f) || bad ? -1 : 0;
}

static long get_number(const char *path)
{
	FILE *f = fopen(path, "r");
	long v = -1;

	if (!f)
		return -1;
	if (fscanf(f, "%ld", &v) != 1)
		v = -1;
	fclose(f);
	return v;
}

/*
 * Free pages of the zone and those on the CPUs' lists. What was freed a moment
 * ago may still wait for a grace period or a worker: take the number that has
 * stood still for a while.
 */
static long pages_left(const char *name, long node)
{
	struct timespec tick = { .tv_nsec = 20000000 };
	long last = -1, now;
	int i, same = 0;
	struct zone z;

	for (i = 0; i < 100 && same < 5; i++) {
		/* Folds what each CPU has not yet added to the zone's count. */
		if (put_number("/proc/sys/vm/stat_refresh", 1) || read_zone(name, node, 0, &z))
			return -1;
		now = z.free + z.nr_pcp;
		same = now == last ? same + 1 : 0;
		last = now;
		nanosleep(&tick, NULL);
	}
	return last;
}

static int read_parameter_of(const char *module, const char *name, char *text, int size)
{
	char path[128];
	FILE *f;
	int ok;

	snprintf(path, sizeof(path), "/sys/module/%s/parameters/%s", module, name);
	f = fopen(path, "r");
	if (!f)
		return -1;
	ok = !!fgets(text, size, f);
	fclose(f);
	text[strcspn(text, "\n")] = '\0';
	return ok ? 0 : -1;
}

static int read_parameter(const char *name, char *text, int size)
{
	return read_parameter_of(MODULE, name, text, size);
}

static int read_numbers(const char *name, long *v, int max)
{
	char text[256], *s = text;
	int i;

	if (read_parameter(name, text, sizeof(text)))
		return -1;
	for (i = 0; i < max && *s; i++) {
		v[i] = strtol(s, &s, 10);
		s += *s == ',';
	}
	return i ? 0 : -1;
}

static long sum(const long *v)
{
	long s = 0;
	int i;

	for (i = 0; i < MAX_ROUNDS; i++)
		s += v[i];
	return s;
}

FIXTURE(pcp)
{
	int fd;			/* the module's file */
	int cpu;		/* that allocates: the last one */
	struct result r;	/* of the last run */
	struct zone z;		/* that it used, before it */
	int storm;		/* is loaded */
	long min_free;		/* vm.min_free_kbytes to put back, or 0 */
	char online[64];	/* where cpu is taken offline */
	int offline;		/* and must be brought back */
};

static void set_online(FIXTURE_DATA(pcp) *self, struct __test_metadata *_metadata, int on)
{
	ASSERT_EQ(0, put_number(self->online, on));
	self->offline = !on;
}

FIXTURE_SETUP(pcp)
{
	memset(self, 0, sizeof(*self));
	self->fd = -1;
	if (geteuid())
		SKIP(return, "needs root to load a module");
	self->fd = open("test_modules/" MODULE ".ko", O_RDONLY | O_CLOEXEC);
	if (self->fd < 0)
		SKIP(return, "test_modules/" MODULE ".ko was not built (no KDIR)");
	self->cpu = sysconf(_SC_NPROCESSORS_ONLN) - 1;
	snprintf(self->online, sizeof(self->online), "/sys/devices/system/cpu/cpu%d/online",
		 self->cpu);
}

FIXTURE_TEARDOWN(pcp)
{
	if (self->min_free)
		put_number("/proc/sys/vm/min_free_kbytes", self->min_free);
	if (self->offline)
		set_online(self, _metadata, 1);
	if (self->storm)
		syscall(SYS_delete_module, STORM, O_NONBLOCK);
	if (self->fd >= 0)
		close(self->fd);
}

/*
 * Load the module with these options, read its results, unload it. A run whose
 * pages came from several zones says nothing. Whatever it is for, each run also
 * checks that no page is lost or counted wrong.
 */
static int __attribute__((format(printf, 3, 4)))
run(FIXTURE_DATA(pcp) *self, struct __test_metadata *_metadata, const char *options, ...)
{
	char text[256], cpu[32];
	struct result *r = &self->r;
	va_list ap;

	va_start(ap, options);
	vsnprintf(text, sizeof(text) - sizeof(cpu), options, ap);
	va_end(ap);
	snprintf(cpu, sizeof(cpu), " cpu=%d cpu2=0", self->cpu);
	strcat(text, cpu);
	errno = 0;
	if (syscall(SYS_finit_module, self->fd, text, 0)) {
		if (errno == ENOSYS)
			SKIP(return -1, "CONFIG_MODULES is not set");
		if (errno == EKEYREJECTED || errno == EPERM)
			SKIP(return -1, "this kernel takes signed modules only");
		if (errno == EOPNOTSUPP)
			SKIP(return -1, "not on PREEMPT_RT");
		if (errno == ENOMEM)
			SKIP(return -1, "not enough free memory");
		ASSERT_EQ(0, errno)
			TH_LOG("finit_module %s: %s (see the kernel log)", text, strerror(errno));
	}
	memset(r, 0, sizeof(*r));
	EXPECT_EQ(0, read_parameter("zone_name", r->zone, sizeof(r->zone)));
	EXPECT_EQ(0, read_numbers("node", &r->node, 1));
	EXPECT_EQ(0, read_numbers("strays", &r->strays, 1));
	EXPECT_EQ(0, read_numbers("miscounts", &r->miscounts, 1));
	EXPECT_EQ(0, read_numbers("free_lost", &r->free_lost, 1));
	EXPECT_EQ(0, read_numbers("count", &r->count, 1));
	EXPECT_EQ(0, read_numbers("listed", &r->listed, 1));
	EXPECT_EQ(0, read_numbers("allocs", r->allocs, MAX_ROUNDS));
	EXPECT_EQ(0, read_numbers("frees", r->frees, MAX_ROUNDS));
	EXPECT_EQ(0, read_numbers("refill_max", r->refill_max, MAX_ROUNDS));
	EXPECT_EQ(0, read_numbers("single_allocs", r->single_allocs, MAX_ROUNDS));
	EXPECT_EQ(0, read_numbers("single_refill_max", r->single_refill_max, MAX_ROUNDS));
	ASSERT_EQ(0, syscall(SYS_delete_module, MODULE, O_NONBLOCK));
	EXPECT_EQ(0, r->miscounts);
	EXPECT_EQ(0, r->free_lost);
	EXPECT_EQ(r->listed, r->count);
	if (self->offline)
		return 0;
	ASSERT_EQ(0, read_zone(r->zone, r->node, self->cpu, &self->z));
	TH_LOG("%s: zone %s, batch %ld, all rounds: %ld allocs, %ld frees, %ld of order 0",
	       text, r->zone, self->z.batch, sum(r->allocs), sum(r->frees),
	       sum(r->single_allocs));
	TH_LOG("round 1: %ld allocs, at most %ld pages; %ld of order 0, at most %ld",
	       r->allocs[0], r->refill_max[0], r->single_allocs[0], r->single_refill_max[0]);
	if (r->strays)
		SKIP(return -1, "%ld pages were not of zone %s", r->strays, r->zone);
	return 0;
}

/* As many refills as N blocks take that are fetched one batch at a time. */
static long fixed_refills(const struct zone *z, long n, int order)
{
	long a_time = z->batch >> order;

	if (a_time < 2)
		a_time = z->batch > 1 ? 2 : 1;
	return (n + a_time - 1) / a_time;
}

/* Empty the CPU's lists: take it offline and back. */
static int drain(FIXTURE_DATA(pcp) *self, struct __test_metadata *_metadata)
{
	if (!self->cpu || access(self->online, W_OK))
		SKIP(return -1, "needs a second CPU that can be taken offline");
	set_online(self, _metadata, 0);
	set_online(self, _metadata, 1);
	return 0;
}

/* The kernel scales refills and lets the lists grow: zoneinfo has their limits. */
static int adapts(const struct zone *z)
{
	return z->high_min >= 0;
}

/* What a list may hold for good. */
static long limit(const struct zone *z)
{
	return adapts(z) ? z->high_min : z->list_high;
}

TEST_F_TIMEOUT(pcp, burst_takes_few_refills, TIMEOUT)
{
	if (drain(self, _metadata) || run(self, _metadata, "blocks=%d", BLOCKS))
		return;
	if (!adapts(&self->z))
		SKIP(return, "refills are of a fixed size here, those of order 0, too");
	EXPECT_LE(self->r.allocs[0] * 12, fixed_refills(&self->z, BLOCKS, 1));
}

TEST_F_TIMEOUT(pcp, burst_after_burst_finds_its_blocks, TIMEOUT)
{
	int i;

	if (run(self, _metadata, "blocks=%d rounds=3", BLOCKS))
		return;
	if (!adapts(&self->z))
		SKIP(return, "lists do not grow with the load here");
	for (i = 1; i < 3; i++) {
		EXPECT_LE(self->r.allocs[i] * 12, fixed_refills(&self->z, BLOCKS, 1));
		EXPECT_LE(self->r.frees[i] * 12, fixed_refills(&self->z, BLOCKS, 1));
	}
}

/* One refill and one drain for each batch, and a fifth more. */
TEST_F_TIMEOUT(pcp, burst_and_free_go_by_the_batch, TIMEOUT)
{
	int i;

	if (run(self, _metadata, "blocks=%d rounds=3", BLOCKS))
		return;
	for (i = 0; i < 3; i++)
		EXPECT_LE((self->r.allocs[i] + self->r.frees[i]) * (self->z.batch / 2) * 10,
			  12 * 2 * BLOCKS);
}

TEST_F_TIMEOUT(pcp, pairs_stay_on_the_list, TIMEOUT)
{
	if (run(self, _metadata, "mode=pairs blocks=10000"))
		return;
	EXPECT_LE((self->r.allocs[0] + self->r.frees[0]) * 100, 10000);
}

TEST_F_TIMEOUT(pcp, apart_goes_by_the_batch, TIMEOUT)
{
	long limit;

	if (!self->cpu)
		SKIP(return, "needs two CPUs online");
	if (run(self, _metadata, "mode=apart blocks=256 rounds=100"))
		return;
	limit = fixed_refills(&self->z, 256 * 100, 1);
	EXPECT_LE(sum(self->r.allocs), limit);
	EXPECT_LE(sum(self->r.frees), limit);
}

TEST_F_TIMEOUT(pcp, order_0_is_served_as_without_order_1, TIMEOUT)
{
	long allocs, max;

	if (drain(self, _metadata) || run(self, _metadata, "order=0 blocks=8192"))
		return;
	allocs = self->r.allocs[0];
	max = self->r.refill_max[0];
	if (drain(self, _metadata) || run(self, _metadata, "blocks=2048 singles=4"))
		return;
	EXPECT_LE(self->r.single_allocs[0], allocs);
	EXPECT_LE(self->r.single_refill_max[0], max);
}

/* A stream of order 0 has earned large refills; a block of order 1 now and then has not. */
TEST_F_TIMEOUT(pcp, order_1_gets_its_own_factor, TIMEOUT)
{
	if (drain(self, _metadata) || run(self, _metadata, "blocks=40 singles=200"))
		return;
	EXPECT_LE(self->r.refill_max[0], 2 * self->z.batch);
}

/* The lock of the zone is held no longer than for order 0. */
TEST_F_TIMEOUT(pcp, refill_is_no_larger_than_for_order_0, TIMEOUT)
{
	long max;

	if (drain(self, _metadata) || run(self, _metadata, "order=0 blocks=%d", 2 * BLOCKS))
		return;
	max = self->r.refill_max[0];
	if (drain(self, _metadata) || run(self, _metadata, "blocks=%d", BLOCKS))
		return;
	EXPECT_LE(self->r.refill_max[0], max);
}

TEST_F_TIMEOUT(pcp, orders_2_and_3_take_one_batch, TIMEOUT)
{
	int order;

	for (order = 2; order <= 3; order++) {
		if (drain(self, _metadata) || run(self, _metadata, "order=%d blocks=1024", order))
			return;
		EXPECT_GE(self->r.allocs[0] * 10, fixed_refills(&self->z, 1024, order) * 9);
		EXPECT_LE(self->r.refill_max[0], self->z.batch);
	}
}

TEST_F_TIMEOUT(pcp, small_zone_gives_one_block_at_a_time, TIMEOUT)
{
	if (run(self, _metadata, "dma=1 blocks=64"))
		return;
	if (strcmp(self->r.zone, "DMA") || self->z.batch != 1)
		SKIP(return, "zone %s has a batch of %ld", self->r.zone, self->z.batch);
	EXPECT_LE(self->r.refill_max[0], 2);
}

/* Raise the zone's high watermark above what is free, its low one not. */
TEST_F_TIMEOUT(pcp, zone_below_high_gives_one_batch, TIMEOUT)
{
	const char *min_free = "/proc/sys/vm/min_free_kbytes";
	double want;
	int i;

	if (drain(self, _metadata) || run(self, _metadata, "blocks=1"))
		return;
	self->min_free = get_number(min_free);
	ASSERT_LT(0, self->min_free);
	want = self->min_free;
	for (i = 0; i < 5; i++) {
		want *= 1.04 * self->z.free / self->z.high;
		ASSERT_EQ(0, put_number(min_free, want));
		ASSERT_EQ(0, read_zone(self->r.zone, self->r.node, self->cpu, &self->z));
	}
	if (self->z.high < self->z.free || self->z.high > 1.1 * self->z.free)
		SKIP(return, "cannot bring the high watermark to %ld pages: it is %ld",
		     self->z.free, self->z.high);
	if (run(self, _metadata, "blocks=%d", BLOCKS))
		return;
	EXPECT_GE(self->r.allocs[0] * 10, fixed_refills(&self->z, BLOCKS, 1) * 9);
	EXPECT_LE(self->r.refill_max[0], self->z.batch);
}

/* The CPU is offline: its lists are empty, and say so. */
static int expect_drained(FIXTURE_DATA(pcp) *self, struct __test_metadata *_metadata)
{
	if (run(self, _metadata, "mode=look"))
		return -1;
	EXPECT_EQ(0, self->r.count);
	EXPECT_EQ(0, self->r.listed);
	return 0;
}

/*
 * N blocks and M single pages are 2 N + M pages: the module compares pcp->count
 * with NR_FREE_PAGES after each operation, and with the lists in the end. Taking
 * the CPU offline drains exactly that, whatever is left: nothing but blocks of
 * order 1, or an odd number of pages. That takes and frees memory itself, up to
 * three pages a time were seen: what is lost in each cycle must add up to more.
 */
TEST_F_TIMEOUT(pcp, every_page_is_counted, TIMEOUT)
{
	static const struct { int blocks, singles; } mix[] = {
		{ 1, 0 }, { 7, 0 }, { 1, 1 }, { 31, 1 }, { 512, 3 }, { 513, 1 },
	};
	const int cycles = 2 * ARRAY_SIZE(mix), noise = 20;
	long first = 0, on_list, offline = 0;
	int i, m;

	if (drain(self, _metadata))
		return;
	for (i = 0; i <= cycles; i++) {
		m = i % ARRAY_SIZE(mix);
		if (run(self, _metadata, "blocks=%d singles=%d", mix[m].blocks, mix[m].singles))
			return;
		on_list = pages_left(self->r.zone, self->r.node);
		set_online(self, _metadata, 0);
		if (expect_drained(self, _metadata))
			return;
		offline = pages_left(self->r.zone, self->r.node);
		set_online(self, _metadata, 1);
		EXPECT_GE(noise, labs(on_list - offline));
		if (!i)
			first = offline;
	}
	TH_LOG("%ld pages after the first cycle, %ld after %d more", first, offline, cycles);
	EXPECT_GE(5 * cycles, labs(first - offline));
}

/* Seconds until what a burst has left on the list has gone back; -1 if it has not. */
static long idle_seconds(FIXTURE_DATA(pcp) *self, struct __test_metadata *_metadata, int order)
{
	struct timespec tick = { .tv_nsec = 50000000 };
	time_t start = time(NULL);
	struct zone z;

	do {
		nanosleep(&tick, NULL);
		ASSERT_EQ(0, read_zone(self->r.zone, self->r.node, self->cpu, &z));
	} while (z.count > limit(&z) && time(NULL) < start + 90);
	TH_LOG("order %d: %ld pages after the burst, %ld after %ld s", order,
	       self->z.count, z.count, (long)(time(NULL) - start));
	return z.count > limit(&z) ? -1 : time(NULL) - start;
}

/* It goes back also when nobody needs it, and about as fast as for order 0. */
TEST_F_TIMEOUT(pcp, idle_pages_are_given_back, 2 * TIMEOUT)
{
	cpu_set_t cpus;
	long as_order_0, seconds;

	/* The work that does it is not worth waking an idle CPU for. */
	CPU_ZERO(&cpus);
	CPU_SET(self->cpu, &cpus);
	ASSERT_EQ(0, sched_setaffinity(0, sizeof(cpus), &cpus));
	if (run(self, _metadata, "order=0 blocks=%d rounds=2", 2 * BLOCKS))
		return;
	as_order_0 = idle_seconds(self, _metadata, 0);
	if (as_order_0 < 0)
		SKIP(return, "pages of order 0 are not given back here, either");
	if (run(self, _metadata, "blocks=%d rounds=2", BLOCKS))
		return;
	seconds = idle_seconds(self, _metadata, 1);
	EXPECT_LE(0, seconds);
	EXPECT_LE(seconds, 2 * as_order_0 + 10);
}

static long storm_result(const char *name)
{
	char text[32];

	return read_parameter_of(STORM, name, text, sizeof(text)) ? -1 : atol(text);
}

/* Load the module that allocates and frees from everywhere until it is unloaded. */
static int start_storm(FIXTURE_DATA(pcp) *self, struct __test_metadata *_metadata)
{
	int fd = open("test_modules/" STORM ".ko", O_RDONLY | O_CLOEXEC), err;

	if (fd < 0)
		SKIP(return -1, "test_modules/" STORM ".ko was not built (no KDIR)");
	errno = 0;
	err = syscall(SYS_finit_module, fd, "", 0) ? errno : 0;
	close(fd);
	if (err == EOPNOTSUPP)
		SKIP(return -1, "not on PREEMPT_RT");
	ASSERT_EQ(0, err);
	self->storm = 1;
	return 0;
}

/* Unload it; no block was handed out twice, and there was a storm. */
static void end_storm(FIXTURE_DATA(pcp) *self, struct __test_metadata *_metadata)
{
	TH_LOG("%ld blocks, and %ld in interrupts", storm_result("done"), storm_result("in_irq"));
	EXPECT_LT(0, storm_result("done"));
	EXPECT_LT(0, storm_result("in_irq"));
	EXPECT_EQ(0, storm_result("bad"));
	ASSERT_EQ(0, syscall(SYS_delete_module, STORM, O_NONBLOCK));
	self->storm = 0;
}

/* A CPU goes and comes back in the middle of it: its lists are empty each time. */
TEST_F_TIMEOUT(pcp, storm_with_cpu_hotplug, TIMEOUT)
{
	int i;

	if (drain(self, _metadata) || run(self, _metadata, "blocks=1") ||
	    start_storm(self, _metadata))
		return;
	for (i = 0; i < 20; i++) {
		set_online(self, _metadata, 0);
		if (expect_drained(self, _metadata))
			return;
		set_online(self, _metadata, 1);
	}
	end_storm(self, _metadata);
	/* The lists that the storm has left are counted right, too. */
	run(self, _metadata, "blocks=513 singles=1");
}

/* Take memory offline in the middle of it, where there is a block that can be. */
TEST_F_TIMEOUT(pcp, storm_with_memory_offline, TIMEOUT)
{
	char path[80];
	int i, done = 0;

	if (access("/sys/devices/system/memory/block_size_bytes", R_OK))
		SKIP(return, "needs CONFIG_MEMORY_HOTREMOVE");
	if (start_storm(self, _metadata))
		return;
	for (i = 0; i < 4096 && done < 20; i++) {
		snprintf(path, sizeof(path), "/sys/devices/system/memory/memory%d/online", i);
		/* EBUSY is an answer: the block has pages that cannot move. */
		if (get_number(path) != 1 || put_number(path, 0))
			continue;
		done++;
		ASSERT_EQ(0, put_number(path, 1));
	}
	end_storm(self, _metadata);
	if (!done)
		SKIP(return, "no block of memory could be taken offline");
}

TEST_HARNESS_MAIN
