// SPDX-License-Identifier: GPL-2.0
/*
 * init - the guest's /init: mount, run the tests, write KTAP, switch off.
 *
 * Reads /tests/list, or what list= on the command line names, one test a line (only
 * the one that only= names, if that is there):
 *	folder/name command [argument...]
 * The command runs in /tests/<folder>. A command that ends in .ko is a list of
 * modules instead: loaded in order, unloaded in reverse order, each step must
 * succeed. What a test prints goes to the KTAP port, indented by two spaces if
 * it is KTAP itself, else as diagnostics. The last line is "# init: done": the
 * host takes a log without it for an early end.
 *
 * Ports: ttyS0 console, ttyS1 KTAP, ttyS2 samples (tests find it as fd 3).
 * A test's status follows kselftest: 0 ok, 4 SKIP, else not ok; one that takes longer
 * than 300 seconds, or test_timeout= of the command line, is killed: TIMEOUT.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define MAX_TESTS	256
#define MAX_ARGS	16
#define KSFT_SKIP	4

static FILE *ktap;
static int samples = -1, timeout_s;

/* Say why on the console and end; the missing last KTAP line tells the host. */
static void __attribute__((format(printf, 1, 2), noreturn)) fatal(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("init: ", stdout);
	vprintf(fmt, ap);
	va_end(ap);
	printf(": %s\n", strerror(errno));
	fflush(stdout);
	reboot(RB_AUTOBOOT);	/* QEMU runs with -no-reboot */
	for (;;)
		pause();
}

static void mount_at(const char *type, const char *dir)
{
	if (mkdir(dir, 0755) && errno != EEXIST)
		fatal("mkdir %s", dir);
	if (mount(type, dir, type, 0, NULL))
		fatal("mount %s", dir);
}

/* A serial port without any line discipline between us and the host's file. */
static int raw_port(const char *path)
{
	struct termios t;
	int fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);

	if (fd < 0)
		fatal("open %s", path);
	if (tcgetattr(fd, &t))
		fatal("tcgetattr %s", path);
	cfmakeraw(&t);
	if (tcsetattr(fd, TCSANOW, &t))
		fatal("tcsetattr %s", path);
	return fd;
}

/* Pass the child's output on, a line at a time; returns 1 if time ran out. */
static int relay(int fd, pid_t pid)
{
	char line[1024];
	time_t end = time(NULL) + timeout_s;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t len = 0;
	int late = 0, nested = -1;	/* -1: before the first line */
	char c;

	for (;;) {
		if (!late && (time(NULL) >= end || poll(&p, 1, (int)(end + 1 - time(NULL)) * 1000) == 0)) {
			if (time(NULL) < end)
				continue;
			late = 1;
			kill(-pid, SIGKILL);
		}
		if (read(fd, &c, 1) != 1)
			break;
		if (c != '\n' && len < sizeof(line) - 1) {
			line[len++] = c;
			continue;
		}
		line[len] = '\0';
		if (nested < 0)
			nested = strstr(line, "TAP version") != NULL;
		/* nested KTAP keeps its lines, anything else is a diagnostic */
		fprintf(ktap, "%s%s\n", nested ? "  " : "  # ", line);
		len = 0;
		if (c != '\n')
			line[len++] = c;
	}
	if (len)
		fprintf(ktap, "  # %.*s\n", (int)len, line);
	return late;
}

static int load(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || syscall(SYS_finit_module, fd, "", 0)) {
		printf("# insmod %s: %s\n", path, strerror(errno));
		return -1;
	}
	return close(fd);
}

/* "dir/test_foo.ko" to the name that the kernel knows: "test_foo". */
static int unload(const char *path)
{
	const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	char name[64];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(base, "."), base);
	if (syscall(SYS_delete_module, name, O_NONBLOCK)) {
		printf("# rmmod %s: %s\n", name, strerror(errno));
		return -1;
	}
	return 0;
}

static int modules(char **path)
{
	int loaded = 0, bad = 0;

	while (path[loaded] && !bad) {
		bad = load(path[loaded]);
		loaded += !bad;
	}
	printf("# %d module(s) loaded\n", loaded);
	while (loaded)
		bad |= unload(path[--loaded]);
	return !!bad;
}

static void child(char **arg, int out)
{
	size_t len = strlen(arg[0]);

	setpgid(0, 0);
	dup2(out, 1);
	dup2(out, 2);
	if (samples >= 0)
		dup2(samples, 3);
	usleep(10000);	/* init sleeps in poll() then: none of it is counted in a region */
	if (len > 3 && !strcmp(arg[0] + len - 3, ".ko"))
		exit(modules(arg));
	execv(arg[0], arg);
	dprintf(1, "cannot run %s: %s\n", arg[0], strerror(errno));
	_exit(127);
}

static void run_test(int number, char *line)
{
	char *arg[MAX_ARGS + 1], *name = strtok(line, " \n"), *slash;
	char dir[128];
	int n = 0, out[2], status, late, skip;
	pid_t pid;

	while (n < MAX_ARGS && (arg[n] = strtok(NULL, " \n")))
		n++;
	arg[n] = NULL;
	slash = strrchr(name, '/');	/* the folder may be nested */
	if (!n || !slash)
		fatal("bad line '%s' in /tests/list", name);
	snprintf(dir, sizeof(dir), "/tests/%.*s", (int)(slash - name), name);
	if (chdir(dir))
		fatal("chdir %s", dir);
	if (pipe2(out, O_CLOEXEC))
		fatal("pipe");
	printf("init: test %d %s\n", number, name);
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		fatal("fork");
	if (!pid)
		child(arg, out[1]);
	close(out[1]);
	late = relay(out[0], pid);
	close(out[0]);
	if (waitpid(pid, &status, 0) != pid)
		fatal("waitpid");
	skip = WIFEXITED(status) && WEXITSTATUS(status) == KSFT_SKIP;
	if (!late && status && !skip)
		fprintf(ktap, "# %s=%d\n", WIFEXITED(status) ? "exit" : "signal",
			WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
	if (late)
		fprintf(ktap, "not ok %d %s # TIMEOUT %d seconds\n", number, name, timeout_s);
	else
		fprintf(ktap, "%sok %d %s%s\n", status && !skip ? "not " : "", number, name, skip ? " # SKIP" : "");
	fflush(ktap);
}

int main(void)
{
	char *tests[MAX_TESTS], *line = NULL, *only = getenv("only");
	int count = 0;
	size_t size = 0;
	FILE *list;

	mount_at("devtmpfs", "/dev");
	mount_at("proc", "/proc");
	mount_at("sysfs", "/sys");
	mount_at("tmpfs", "/tmp");
	ktap = fdopen(raw_port("/dev/ttyS1"), "w");
	samples = raw_port("/dev/ttyS2");
	timeout_s = atoi(getenv("test_timeout") ?: "300");
	setenv("PATH", "/bin:/usr/bin", 1);
	list = fopen(getenv("list") ? getenv("list") : "/tests/list", "re");
	if (!ktap || !list)
		fatal("/tests/list");
	while (getline(&line, &size, list) > 1 && count < MAX_TESTS)
		if (!only || (!strncmp(line, only, strlen(only)) && line[strlen(only)] == ' '))
			tests[count++] = strdup(line);
	fprintf(ktap, "KTAP version 1\n1..%d\n", count);
	fflush(ktap);
	for (int i = 0; i < count; i++)
		run_test(i + 1, tests[i]);
	fputs("# init: done\n", ktap);
	fflush(ktap);
	tcdrain(fileno(ktap));
	tcdrain(samples);
	sync();
	reboot(RB_AUTOBOOT);
	fatal("reboot");
}
