// SPDX-License-Identifier: GPL-2.0
/*
 * ktap - read nested KTAP strictly: one row per result and per defect of form
 *
 * Usage:  ktap FILE	("-" reads standard input; -h prints help)
 *
 * Input:  a document is a version line ("KTAP version 1", "TAP version 13" or
 * "TAP version 14"), one plan "1..N" before or after the results, and results
 * "[not ]ok NUMBER [- ]NAME [# DIRECTIVE TEXT]". A document of its own,
 * indented by two more spaces, may stand before a result: its children. "#"
 * lines are diagnostics; CRs at the end of a line are dropped. Any other line
 * is ignored, and standard error says how many there were.
 *
 * Output: tab-separated, one header line "test verdict detail", then one row
 * per result in input order. "test" is the path from the top with "/" between
 * levels; a result without a name goes by its number, a parent that never
 * reported by "?". "verdict" is pass, fail, skip, xfail, todo, timeout or
 * error; "detail" is the directive's text, or all that follows "#" where there
 * is no known directive. Then one row per defect, in the order found:
 *	PATH	broken	line N: what
 * where the path "." is the document. Control characters print as "?"; a line
 * with NUL or anything that is not UTF-8 is a defect and not looked into.
 *
 * Only the form is judged: a failed test is no defect, a passed parent of a
 * failed test is. A document skipped as a whole ("1..0 # SKIP why") is well
 * formed and has no rows: whoever expects a test must look for its row.
 *
 * Exit:   0 well formed, 1 at least one defect, 2 could not run.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_NUMBER	100000	/* larger plans and numbers are nonsense */
#define MAX_DEPTH	16

enum verdict { PASS, FAIL, SKIP, XFAIL, TODO, TIMEOUT, ERROR, NR_VERDICTS };

static const char * const verdicts[NR_VERDICTS] = {
	"pass", "fail", "skip", "xfail", "todo", "timeout", "error"
};

static struct block {		/* a version line, a plan, results */
	size_t up;		/* enclosing block, 0 at the top */
	const char *parent;	/* name of the result that sums it up */
	size_t line;		/* where it began */
	size_t plan_line;	/* 0: no plan yet */
	unsigned long long plan;
	size_t seen;		/* results */
	size_t next;		/* number due */
	bool ended;		/* the plan came after results */
	bool failed;		/* a result of this block failed */
} *blocks;

static struct row {
	size_t block;
	const char *name, *detail;
	enum verdict verdict;
} *rows;

static struct defect {
	size_t block;
	const char *name;	/* result in the block, NULL: the whole block */
	size_t line;
	char what[80];
} *defects;

static size_t nr_blocks = 1, nr_rows, nr_defects, nr_unknown;

static size_t depth, open_block[MAX_DEPTH];	/* by level */
static size_t used[MAX_DEPTH][MAX_NUMBER + 1];	/* number: by which block */

static _Noreturn void die(const char *what, const char *why)
{
	fprintf(stderr, "ktap: %s: %s\n", what, why);
	exit(2);
}

/* Room for entry @n of an array; it doubles at each power of two. */
static void *grow(void *array, size_t n, size_t size)
{
	if (n & (n - 1))
		return array;
	array = realloc(array, (n ? 2 * n : 1) * size);
	if (!array)
		die("table of results", "out of memory");
	return array;
}

__attribute__((format(printf, 4, 5)))
static void broken(size_t block, const char *name, size_t line,
		   const char *fmt, ...)
{
	struct defect *d;
	va_list args;

	defects = grow(defects, nr_defects, sizeof(*defects));
	d = &defects[nr_defects++];
	d->block = block;
	d->name = name;
	d->line = line;
	va_start(args, fmt);
	vsnprintf(d->what, sizeof(d->what), fmt, args);
	va_end(args);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool ends_word(char c)
{
	return !c || is_blank(c);
}

static char *skip_blanks(char *s)
{
	return s + strspn(s, " \t");
}

static char *skip_digits(char *s)
{
	return s + strspn(s, "0123456789");
}

/* UTF-8 without NUL? */
static bool is_text(const char *s, size_t n)
{
	while (n) {
		unsigned char c = (unsigned char)*s;
		size_t len = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 :
			     c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;

		if (!c || !len || len > n)
			return false;
		for (size_t i = 1; i < len; i++)
			if ((s[i] & 0xc0) != 0x80)
				return false;
		s += len;
		n -= len;
	}
	return true;
}

/*
 * The verdict that the directive after the "#" at *@s stands for, or @v if it
 * is none; *@s moves on to the text.
 */
static enum verdict directive(char **s, enum verdict v)
{
	bool separate = ends_word((*s)[1]);

	*s = skip_blanks(*s + 1);
	for (enum verdict d = SKIP; d < NR_VERDICTS && separate; d++) {
		size_t len = strlen(verdicts[d]);

		if (strncasecmp(*s, verdicts[d], len) || !ends_word((*s)[len]))
			continue;
		*s = skip_blanks(*s + len);
		return d;
	}
	return v;
}

/*
 * Close the blocks of level @keep and deeper. @parent, if any, is the result
 * that sums up the one of level @keep, and @good if it says that all is well.
 */
static void close_blocks(size_t keep, const char *parent, bool good, size_t line)
{
	for (; depth > keep; depth--) {
		size_t id = open_block[depth - 1];
		struct block *b = &blocks[id];

		if (!b->plan_line)
			broken(id, NULL, b->line, "no plan");
		else if (b->plan <= MAX_NUMBER && b->plan != b->seen)
			broken(id, NULL, b->plan_line,
			       "plan does not add up: planned %llu, seen %zu",
			       b->plan, b->seen);
		if (depth == keep + 1 && parent) {
			b->parent = parent;
			if (b->failed && good)
				broken(b->up, parent, line,
				       "parent hides the failure of a child");
		} else if (depth > 1) {
			broken(id, NULL, b->line,
			       "nested block without a parent result (truncated)");
		}
	}
}

static size_t start_block(size_t line)
{
	blocks = grow(blocks, nr_blocks, sizeof(*blocks));
	blocks[nr_blocks] = (struct block){
		.up = depth ? open_block[depth - 1] : 0,
		.parent = depth ? "?" : ".",
		.line = line,
		.next = 1,
	};
	open_block[depth++] = nr_blocks;
	return nr_blocks++;
}

/* The block that a plan or result of @level belongs to. */
static size_t find_block(size_t level, size_t line)
{
	size_t id;

	if (level < depth)
		return open_block[level];
	id = start_block(line);
	broken(id, NULL, line, "no version line");
	return id;
}

static void version_line(size_t level, size_t line)
{
	bool again = level < depth;
	size_t id;

	close_blocks(level, NULL, false, line);
	id = start_block(line);
	if (again)
		broken(id, NULL, line, "second version line on one level");
}

/* @s: the number and what follows */
static void plan_line(char *s, size_t level, size_t line)
{
	size_t id = find_block(level, line);
	struct block *b = &blocks[id];

	close_blocks(level + 1, NULL, false, line);
	if (b->plan_line) {
		broken(id, NULL, line, "second plan, the first is on line %zu",
		       b->plan_line);
		return;
	}
	b->plan = strtoull(s, &s, 10);
	b->plan_line = line;
	b->ended = b->seen > 0;
	s = skip_blanks(s);
	if (b->plan > MAX_NUMBER)
		broken(id, NULL, line, "absurd plan, more than %d", MAX_NUMBER);
	else if (!b->plan && (!*s || directive(&s, PASS) != SKIP || !*s))
		broken(id, NULL, line, "plan 1..0 without SKIP reason");
}

static void check_number(const char *digits, size_t id, const char *name,
			 size_t level, size_t line)
{
	struct block *b = &blocks[id];
	unsigned long long n = strtoull(digits, NULL, 10);

	if (!*digits || n > MAX_NUMBER) {
		if (*digits)
			broken(id, name, line, "absurd number, more than %d", MAX_NUMBER);
		else
			broken(id, name, line, "number missing");
		b->next++;
		return;
	}
	if (used[level][n] == id) {
		broken(id, name, line, "duplicate number %llu", n);
		return;
	}
	if (n != b->next)
		broken(id, name, line, "number %llu out of order, %zu is due",
		       n, b->next);
	used[level][n] = id;
	b->next = (size_t)n + 1;
}

/* @s: what follows "ok" or "not ok" */
static void result_line(char *s, bool ok, size_t level, size_t line)
{
	size_t id = find_block(level, line);
	enum verdict v = ok ? PASS : FAIL;
	char *end = s + strlen(s), *digits = end, *detail = end, *hash;
	const char *name;

	s = skip_blanks(s);
	if (skip_digits(s) > s && ends_word(*skip_digits(s))) {
		digits = s;
		s = skip_digits(s);
		if (*s)
			*s++ = '\0';
		s = skip_blanks(s);
	}
	if (*s == '-' && ends_word(s[1]))
		s = skip_blanks(s + 1);
	hash = strchr(s, '#');
	if (hash) {
		detail = hash;
		v = directive(&detail, v);
		end = hash;
	}
	while (end > s && is_blank(end[-1]))
		end--;
	name = end > s ? s : *digits ? digits : "?";
	if (hash && v != SKIP && !strncasecmp(detail, "skip", 4))
		broken(id, name, line, "SKIP is not spelt \"# SKIP\"");
	else if (hash && ((hash > s && end == hash) || !ends_word(hash[1])))
		broken(id, name, line, "'#' without a space on each side");
	*end = '\0';

	rows = grow(rows, nr_rows, sizeof(*rows));
	rows[nr_rows++] = (struct row){ id, name, detail, v };
	blocks[id].seen++;
	if (v == FAIL || v == TIMEOUT || v == ERROR)
		blocks[id].failed = true;

	close_blocks(level + 1, name, ok || v == SKIP, line);
	if (blocks[id].ended)
		broken(id, name, line, "result after the end, the plan on line %zu",
		       blocks[id].plan_line);
	check_number(digits, id, name, level, line);
}

static bool is_version(const char *s)
{
	return !strcmp(s, "KTAP version 1") || !strcmp(s, "TAP version 13") ||
	       !strcmp(s, "TAP version 14");
}

static bool is_plan(char *s)
{
	char *end;

	if (strncmp(s, "1..", 3))
		return false;
	end = skip_digits(s + 3);
	return end > s + 3 &&
	       (!*end || (is_blank(*end) && *skip_blanks(end) == '#'));
}

static void parse_line(char *s, size_t len, size_t line)
{
	size_t indent, level;
	bool not_ok, result;

	if (!is_text(s, len)) {
		broken(0, ".", line, "binary noise");
		return;
	}
	while (len && (is_blank(s[len - 1]) || s[len - 1] == '\r'))
		s[--len] = '\0';
	indent = strspn(s, " ");
	level = indent / 2;
	s += indent;
	if (!*s || *skip_blanks(s) == '#')
		return;
	not_ok = !strncmp(s, "not ok", 6);
	result = (not_ok || !strncmp(s, "ok", 2)) && ends_word(s[not_ok ? 6 : 2]);
	if (!result && !is_version(s) && !is_plan(s))
		nr_unknown++;
	else if (indent % 2)
		broken(0, ".", line, "indented by an odd number of spaces");
	else if (level > depth || level >= MAX_DEPTH)
		broken(0, ".", line, "indented deeper than any open block");
	else if (result)
		result_line(s + (not_ok ? 6 : 2), !not_ok, level, line);
	else if (is_plan(s))
		plan_line(s + 3, level, line);
	else
		version_line(level, line);
}

static void parse(char *s, size_t size)
{
	size_t line = 0;

	if (!size)
		broken(0, ".", 0, "empty input");
	while (size) {
		char *end = memchr(s, '\n', size);
		size_t len = end ? (size_t)(end - s) : size;

		s[len] = '\0';
		parse_line(s, len, ++line);
		if (!end)
			broken(0, ".", line, "last line without newline (truncated)");
		size -= len + !!end;
		s += len + !!end;
	}
	close_blocks(0, NULL, false, line);
	if (line && nr_blocks == 1)
		broken(0, ".", line, "no version line up to the end");
}

/* Print @s and end it with @end. */
static void put(const char *s, int end)
{
	for (; *s; s++)
		putchar((unsigned char)*s < ' ' || *s == 0x7f ? '?' : *s);
	putchar(end);
}

static void put_path(size_t block, const char *name, int end)
{
	if (block && blocks[block].up)
		put_path(blocks[block].up, blocks[block].parent, '/');
	put(name, end);
}

static char *slurp(const char *file, size_t *size)
{
	FILE *f = strcmp(file, "-") ? fopen(file, "rb") : stdin;
	size_t room = 1 << 16;
	char *buf = NULL;

	if (!f)
		die(file, strerror(errno));
	do {
		room *= 2;
		buf = realloc(buf, room + 1);	/* 1: parse() ends the last line */
		if (!buf)
			die(file, "out of memory");
		*size += fread(buf + *size, 1, room - *size, f);
	} while (*size == room);
	if (ferror(f))
		die(file, strerror(errno));
	return buf;
}

int main(int argc, char **argv)
{
	static char *input;	/* rows and defects point into it */
	size_t size = 0;

	if (argc == 2 && !strcmp(argv[1], "-h")) {
		puts("usage: ktap FILE\n"
		     "Check nested KTAP; print its results and defects as a table.\n"
		     "  ktap out/7.3/all/bench/run-1/ktap | column -ts '\t'\n"
		     "  ./frob_test | ktap -\n"
		     "Exit: 0 well formed, 1 defects, 2 could not run");
		return 0;
	}
	if (argc != 2 || !argv[1][0] || (argv[1][0] == '-' && argv[1][1]))
		die("bad usage", "want one FILE, or - for standard input, or -h");

	input = slurp(argv[1], &size);
	parse(input, size);

	puts("test\tverdict\tdetail");
	for (size_t i = 0; i < nr_rows; i++) {
		put_path(rows[i].block, rows[i].name, '\t');
		printf("%s\t", verdicts[rows[i].verdict]);
		put(rows[i].detail, '\n');
	}
	for (size_t i = 0; i < nr_defects; i++) {
		struct defect *d = &defects[i];

		if (d->name)
			put_path(d->block, d->name, '\t');
		else
			put_path(blocks[d->block].up, blocks[d->block].parent, '\t');
		printf("broken\tline %zu: %s\n", d->line, d->what);
	}
	if (fflush(stdout) || ferror(stdout))
		die("standard output", strerror(errno));
	if (nr_unknown)
		fprintf(stderr, "ktap: %s: %zu unknown lines ignored\n",
			argv[1], nr_unknown);
	return nr_defects ? 1 : 0;
}
