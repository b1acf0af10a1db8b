// SPDX-License-Identifier: GPL-2.0-only
/*
 * Load test_modules/test_static_key_flip.ko, which flips static keys while
 * another CPU runs through them and fails to load if a flip is not followed.
 * Its success is believed only with its own evidence: the flips that it saw.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kselftest_harness.h"

#define MODULE	"test_static_key_flip"
#define FLIPS	100

/* Read a parameter of the loaded module; -1 if that cannot be done. */
static long parameter(const char *name)
{
	char path[128], text[32] = "";
	long value = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/module/" MODULE "/parameters/%s", name);
	f = fopen(path, "r");
	if (!f)
		return -1;
	if (fgets(text, sizeof(text), f))
		value = strtol(text, NULL, 10);
	fclose(f);
	return value;
}

FIXTURE(flip)
{
	int fd;		/* the module's file */
	int loaded;	/* it is in the kernel and must leave it */
};

FIXTURE_SETUP(flip)
{
	self->loaded = 0;
	self->fd = -1;
	if (geteuid())
		SKIP(return, "needs root to load a module");
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs two CPUs online");
	self->fd = open("test_modules/" MODULE ".ko", O_RDONLY | O_CLOEXEC);
	if (self->fd < 0)
		SKIP(return, "test_modules/" MODULE ".ko was not built (no KDIR)");
}

FIXTURE_TEARDOWN(flip)
{
	if (self->loaded)
		EXPECT_EQ(0, syscall(SYS_delete_module, MODULE, O_NONBLOCK));
	if (self->fd >= 0)
		close(self->fd);
}

TEST_F_TIMEOUT(flip, every_flip_is_followed, 170)
{
	char options[32];

	snprintf(options, sizeof(options), "flips=%d", FLIPS);
	errno = 0;
	if (syscall(SYS_finit_module, self->fd, options, 0)) {
		if (errno == ENOSYS)
			SKIP(return, "CONFIG_MODULES is not set");
		if (errno == EKEYREJECTED || errno == EPERM)
			SKIP(return, "this kernel takes signed modules only");
		ASSERT_EQ(0, errno)
			TH_LOG("finit_module: %s (see the kernel log)", strerror(errno));
	}
	self->loaded = 1;
	EXPECT_EQ(FLIPS, parameter("seen"));
	EXPECT_GE(parameter("passes"), FLIPS * 10);
}

TEST_HARNESS_MAIN
