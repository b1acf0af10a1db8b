// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hold the running kernel's struct sched_entity against the layout contract,
 * sched_entity_layout.tsv: sched_entity_probe.ko tells where the fields are and
 * where the entities of this process, in a cgroup of its own, lie in memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kselftest_harness.h"

#define MODULE		"sched_entity_probe"
#define LAYOUT		"/sys/module/" MODULE "/parameters/layout"
#define CONTRACT	"sched_entity_layout.tsv"
#define GROUP		"sched_entity_layout.test"

struct row {
	char name[32], group[16], option[32];
	unsigned int line;		/* the greatest that it may reach into */
	int seen;			/* by the module */
	unsigned long offset, size;
};

FIXTURE(layout)
{
	struct row row[64];
	int nr_rows;
	unsigned long line;		/* bytes of a cache line */
	unsigned long entity[16];	/* addresses modulo the page size */
	int nr_entities;
	char unknown[32];		/* a field that the contract does not have */
	char cgroup[128];		/* made here; empty if there is none */
	int loaded;
};

static int read_contract(struct row *row, int max)
{
	char line[256];
	FILE *f = fopen(CONTRACT, "r");
	int n = 0;

	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f)) {
		struct row *r = &row[n];

		if (line[0] == '#')
			continue;
		if (n == max || sscanf(line, "%31[^\t]\t%15[^\t]\t%u\t%31[^\n]", r->name,
				       r->group, &r->line, r->option) != 4) {
			n = -1;
			break;
		}
		r->seen = 0;
		n++;
	}
	fclose(f);
	return n;
}

static struct row *find(struct row *row, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(row[i].name, name))
			return &row[i];
	return NULL;
}

static int put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -1;
	n = write(fd, text, strlen(text));
	close(fd);
	return n == (ssize_t)strlen(text) ? 0 : -1;
}

/*
 * Move into a new cgroup with its own scheduling entity, in a mount of our own
 * so that it does not matter where the system has its hierarchy. Without it
 * only the task's entity is looked at.
 */
static void enter_cgroup(char *cgroup, size_t size)
{
	char path[256], me[16];
	const char *root = "/tmp/" GROUP;

	cgroup[0] = '\0';
	mkdir("/tmp", 01777);
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return;
	if ((mkdir(root, 0700) && errno != EEXIST) || mount("none", root, "cgroup2", 0, NULL))
		return;
	snprintf(path, sizeof(path), "%s/cgroup.subtree_control", root);
	if (put(path, "+cpu"))
		return;
	snprintf(path, sizeof(path), "%s/" GROUP, root);
	if (mkdir(path, 0700) && errno != EEXIST)
		return;
	snprintf(path, sizeof(path), "%s/" GROUP "/cgroup.procs", root);
	snprintf(me, sizeof(me), "%d", getpid());
	if (!put(path, me))
		snprintf(cgroup, size, "%s/" GROUP, root);
}

/* All that the set-up did; it calls this itself where it skips. */
static int undo(FIXTURE_DATA(layout) *self)
{
	char me[16], *slash;
	int err = 0;

	if (self->loaded)
		err |= syscall(SYS_delete_module, MODULE, O_NONBLOCK);
	self->loaded = 0;
	if (!self->cgroup[0])
		return err;
	slash = strrchr(self->cgroup, '/');
	*slash = '\0';
	snprintf(me, sizeof(me), "%d", getpid());
	err |= chdir(self->cgroup);
	err |= put("cgroup.procs", me);
	err |= rmdir(GROUP);
	err |= chdir("/");
	umount2(self->cgroup, MNT_DETACH);
	rmdir(self->cgroup);
	self->cgroup[0] = '\0';
	return err;
}

FIXTURE_SETUP(layout)
{
	char line[128], name[32];
	unsigned long a, b;
	int fd, fields;
	FILE *f;

	self->line = 0;
	self->nr_entities = 0;
	self->unknown[0] = '\0';
	self->cgroup[0] = '\0';
	self->loaded = 0;
	self->nr_rows = read_contract(self->row, ARRAY_SIZE(self->row));
	ASSERT_LT(0, self->nr_rows)
		TH_LOG("%s is missing or damaged", CONTRACT);
	if (geteuid())
		SKIP(return, "needs root to load a module");
	fd = open(MODULE ".ko", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		SKIP(return, MODULE ".ko was not built (no KDIR)");
	enter_cgroup(self->cgroup, sizeof(self->cgroup));

	errno = 0;
	if (syscall(SYS_finit_module, fd, "", 0)) {
		int err = errno;

		close(fd);
		undo(self);
		if (err == ENOSYS)
			SKIP(return, "CONFIG_MODULES is not set");
		if (err == EKEYREJECTED || err == EPERM)
			SKIP(return, "this kernel takes signed modules only");
		ASSERT_EQ(0, err)
			TH_LOG("finit_module: %s", strerror(err));
	}
	close(fd);
	self->loaded = 1;

	f = fopen(LAYOUT, "r");
	ASSERT_NE(NULL, f);
	while (fgets(line, sizeof(line), f)) {
		struct row *r;

		fields = sscanf(line, "%31s %lu %lu", name, &a, &b);
		if (fields == 2 && !strcmp(name, "line"))
			self->line = a;
		if (fields == 2 && !strcmp(name, "entity"))
			self->entity[self->nr_entities++ % ARRAY_SIZE(self->entity)] = a;
		if (fields != 3)
			continue;
		r = find(self->row, self->nr_rows, name);
		if (!r) {
			memcpy(self->unknown, name, sizeof(name));
			continue;
		}
		r->seen = 1;
		r->offset = a;
		r->size = b;
	}
	fclose(f);
	ASSERT_LT(0UL, self->line);
	if (sizeof(long) < 8 || self->line < 64) {
		undo(self);
		SKIP(return, "the contract is for 64-bit and lines of 64 bytes or more");
	}
}

FIXTURE_TEARDOWN(layout)
{
	EXPECT_EQ(0, undo(self));
}

static unsigned long last_byte(const struct row *r)
{
	return r->offset + r->size - 1;
}

TEST_F(layout, contract_and_module_name_the_same_fields)
{
	EXPECT_STREQ("", self->unknown);
	for (int i = 0; i < self->nr_rows; i++) {
		const struct row *r = &self->row[i], *with;

		/* The fields of one option are all there or all missing. */
		for (with = self->row; strcmp(with->option, r->option); with++)
			;
		EXPECT_EQ(r->option[0] == '-' ? 1 : with->seen, r->seen)
			TH_LOG("%s", r->name);
	}
}

TEST_F(layout, tree_fields_share_one_line)
{
	const struct row *root = find(self->row, self->nr_rows, "run_node");

	ASSERT_NE(NULL, root);
	for (int i = 0; i < self->nr_rows; i++) {
		const struct row *r = &self->row[i];

		if (strcmp(r->group, "tree") || !r->seen)
			continue;
		EXPECT_TRUE(r->offset / self->line == root->offset / self->line &&
			    last_byte(r) / self->line == root->offset / self->line)
			TH_LOG("%s at %lu is not in the line of run_node at %lu",
			       r->name, r->offset, root->offset);
	}
}

TEST_F(layout, no_field_reaches_behind_its_line)
{
	for (int i = 0; i < self->nr_rows; i++) {
		const struct row *r = &self->row[i];

		if (!r->seen || !strcmp(r->group, "avg"))
			continue;
		EXPECT_LE(last_byte(r) / 64, r->line)
			TH_LOG("%s at %lu, %lu bytes", r->name, r->offset, r->size);
	}
}

TEST_F(layout, avg_shares_no_line)
{
	const struct row *avg = find(self->row, self->nr_rows, "avg");

	ASSERT_NE(NULL, avg);
	EXPECT_EQ(0UL, avg->offset % self->line);
	for (int i = 0; i < self->nr_rows; i++) {
		const struct row *r = &self->row[i];

		if (r == avg || !r->seen)
			continue;
		EXPECT_LT(last_byte(r) / self->line, avg->offset / self->line)
			TH_LOG("%s", r->name);
	}
}

TEST_F(layout, entities_in_memory_are_aligned)
{
	/* The task's own, and that of its cgroup where groups have one. */
	int want = 1 + (self->cgroup[0] &&
			find(self->row, self->nr_rows, "parent")->seen);

	EXPECT_LE(want, self->nr_entities);
	for (int i = 0; i < self->nr_entities; i++) {
		EXPECT_EQ(0UL, self->entity[i] % self->line)
			TH_LOG("entity %d of this task is at %lu of its page", i, self->entity[i]);
	}
}

TEST_HARNESS_MAIN
