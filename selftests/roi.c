// SPDX-License-Identifier: GPL-2.0
/*
 * roi - run an unmodified program as a region of interest of scripts/kcount.c
 *
 *	roi ID -- CMD [ARG]...
 *
 *	roi 1 -- perf bench sched pipe -l 10000
 *	roi 2 -- /bin/true
 *
 * The region (ID 0..127) opens before the program is started and closes when it
 * has been waited for: it holds fork, exec, exit and whatever else runs in the
 * guest meanwhile. Children that outlive CMD are outside from then on.
 *
 * Exit status: that of CMD, 128+N if signal N ended it; 2 with one line on
 * stderr if CMD could not be run (the region then holds only the attempt).
 *
 * Build: cc -static -no-pie -O2 roi.c
 */
#define _GNU_SOURCE
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROI_RUNTIME
#include "roi.h"

static int fail(const char *what, const char *why)
{
	fprintf(stderr, "roi: %s: %s\n", what, why);
	return 2;
}

int main(int argc, char **argv)
{
	unsigned long id;
	int status, err;
	pid_t pid, got;
	char *end;

	if (argc < 4 || strcmp(argv[2], "--"))
		return fail("usage", "roi ID -- CMD [ARG]...");
	id = strtoul(argv[1], &end, 10);
	if (argv[1][0] < '0' || argv[1][0] > '9' || *end || id >= ROI_IDS)
		return fail(argv[1], "the region id is a number, 0 to 127");

	roi_mark((unsigned int)id, 0);
	err = posix_spawnp(&pid, argv[3], NULL, NULL, argv + 3, environ);
	if (!err) {
		do {
			got = waitpid(pid, &status, 0);
		} while (got < 0 && errno == EINTR);
		if (got < 0)
			err = errno;
	}
	roi_mark((unsigned int)id, 1);

	if (err)
		return fail(argv[3], strerror(err));
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
