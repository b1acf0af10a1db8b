// SPDX-License-Identifier: GPL-2.0
/*
 * ab - compare the samples of two kernels, metric by metric, and refuse to guess
 *
 * Usage: ab [--mmtests] [--seed N] STOCK.tsv PATCHED.tsv
 *	cc -std=c11 -O2 -Wall -Wextra -Wconversion -Werror ab.c -lm -o ab
 *
 * Input: samples.tsv of a run, tab-separated. Lines starting with '#' are comments, the first
 * other line is the header, then one line per sample in any order; LF or CR LF.
 *	boot	metric	unit	kind	value
 * boot: id of the boot the sample came from. value: decimal number in that row's unit, 0 or
 * 1e-100 to 1e100. kind: count (deterministic count under icount; lower is better), time (wall
 * time; lower is better), rate (higher is better). A last line without newline is refused as cut.
 *
 * Output: a header, then one line per metric sorted by name, tab-separated. Medians are in the
 * row's unit. change_pct and its 95 % interval ci_low_pct..ci_high_pct are (patched - stock) /
 * stock in percent. "lower" and "higher" speak of the value, not of good or bad. "-" means not
 * computed, "exact" that no sample varies. Verdicts:
 *	lower, higher		the 95 % interval excludes 0, or exact and different
 *	equal			no sample on either side varies, and all are the same
 *	no difference shown	the note has the smallest change that would have been seen
 *	too few samples		refused: under 5 samples on a side; kind time or rate from one boot
 *				only; or metric missing on a side. No comparison is printed
 *	bimodal			a side falls into two groups: its median describes neither of them.
 *				Claimed from 8 samples on; a finding, not a refusal
 * If a stock sample is 0 the three numbers are differences in the row's unit, written "abs:+3".
 * Numbers are doubles: from 2^53 on neighbours merge; the note then says how far apart they are.
 *
 * --mmtests: the table of mmtests' compare-kernels: Min, Amean (count, time) or Hmean (rate),
 * Stddev (n - 1, about the arithmetic mean), CoeffVar (Stddev in % of that mean), Max. A change is
 * positive when better: Stddev and CoeffVar are better lower, the others as the kind says. *x%*
 * instead of (x%): the means differ by Welch's test at 95 % (of 1/value for Hmean). Without
 * variance on both sides: *x%* when they differ at all.
 *
 * Exit: 0 compared (a difference is no error), 1 reserved, 2 a metric refused or could not run.
 *
 * Formulas and their limits:
 *  - median: the mean of the middle two when N is even. Variance: two passes.
 *  - interval: percentile bootstrap (Efron 1979, Annals of Statistics 7) of the change of medians,
 *    10,000 resamples, order statistics 250 and 9751. Two stages: boots with replacement, then as
 *    many samples in each as it has (Davison & Hinkley 1997, section 3.8), because samples of one
 *    boot are not independent; with one sample a boot this is the plain bootstrap. Measured on
 *    normal A/A data: 2.5 to 5 % false verdicts at 5 to 40 boots. Weak at: fewer boots that differ
 *    much more than the samples of one boot (false verdicts 33 % at 2 boots, 12 % at 3, 8 % at 4;
 *    noted below 5), coarse values, and drift between the two sides (interleave the runs).
 *  - smallest visible change: (1.960 + 0.842) x bootstrap standard error: the true change found
 *    in 80 % of such runs at the 5 % level (Bloom 1995, Evaluation Review 19). A normal
 *    approximation; measured: 81 to 84 % for normal data at 5 to 20 samples.
 *  - bimodal: cut the sorted samples where the sum of squares within the two parts (each at least
 *    1/5 of the samples and 2) is least, as Engelman & Hartigan 1969 (JASA 64). Claimed when
 *    within/total < 0.25 - 0.66/sqrt(n) + 0.1/n: our fit of the 1 % point for a uniform
 *    distribution (t/ab.sh checks it), so normal and exponential data are claimed less than once
 *    in 100. When each boot lies wholly in one part, n is the number of boots. Weak at: modes of
 *    equal size closer than 12 of their standard deviations at n = 8, 9 at 10, 6.3 at 20, 4.4 at
 *    100 (80 % found there); groups under 1/5; takes three groups for two; values so coarse that
 *    only two of them occur are two groups.
 *  - Welch's t and degrees of freedom: Welch 1947 (Biometrika 34). t quantile: bisection of the
 *    incomplete beta function (Abramowitz & Stegun 26.7.1 and series 26.5.4), relative error
 *    under 1e-9 for 1 to 1000 degrees. Weak at: many samples a boot, which it takes as
 *    independent; skewed data.
 *  - random numbers: splitmix64 (Steele, Lea, Flood 2014), scaled to 0..n-1 by multiplication (a
 *    bias under n / 2^32). The default output needs + - * / sqrt only, so every machine with
 *    IEEE doubles prints the same bytes; each metric has its own stream, whatever else the file
 *    holds, and swapping the files gives the mirrored verdict.
 */
#define _POSIX_C_SOURCE 200809L		/* getline, strdup */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF		/* gcc: off because of -std=c11 */
#endif

#define RESAMPLES	10000
#define RANK_LOW	249		/* 2.5 % and 97.5 % as order statistics, from 0 */
#define RANK_HIGH	(RESAMPLES - 1 - RANK_LOW)
#define MIN_SAMPLES	5
#define MIN_BIMODAL	8
#define FEW_BOOTS	5
#define MDE_FACTOR	2.802		/* z(0.975) + z(0.80) */
#define VALUE_MAX	1e100		/* squares stay finite and above 0 */
#define VALUE_MIN	1e-100
#define EXACT_MAX	9007199254740992.0	/* 2^53 */
#define NOTE_SIZE	512
#define HEADER		"boot\tmetric\tunit\tkind\tvalue"
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

enum kind { COUNT, TIME, RATE };
static const char *const kind_name[] = { "count", "time", "rate" };

struct row {
	char *boot, *metric, *unit;	/* in one allocation, kept until exit */
	enum kind kind;
	double value;
	size_t line;
};

struct file {
	const char *path;
	struct row *row;
	size_t n;
};

/* the samples of one metric on one side */
struct side {
	size_t n, nboots;
	double *v;			/* sorted */
	size_t *rank;			/* indices into v, boot by boot */
	size_t *start;			/* boot b has rank[start[b]] .. rank[start[b + 1] - 1] */
	double median, mean, sd;
};

struct result {
	double change, low, high;	/* fractions of stock's median, or absolute */
	double se;
	bool absolute;
};

__attribute__((noreturn, format(printf, 1, 2)))
static void die(const char *fmt, ...)
{
	va_list ap;

	fputs("ab: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(2);
}

static void *alloc(void *old, size_t n, size_t size)
{
	void *p = NULL;

	if (n <= SIZE_MAX / size)
		p = realloc(old, n ? n * size : 1);
	if (!p)
		die("out of memory for %zu items; compare fewer samples", n);
	return p;
}

/* ---- reading ---- */

static double parse_value(const struct file *f, size_t line, const char *s)
{
	char *end;
	double v;

	errno = 0;
	v = strtod(s, &end);
	if (!*s || *end || s[strspn(s, "0123456789+-.eE")] || !isfinite(v) || errno)
		die("%s:%zu: value \"%.40s\" is not a finite decimal number; fix or remove the sample",
		    f->path, line, s);
	if (v < 0)
		die("%s:%zu: negative value %.40s; counts, times and rates start at 0",
		    f->path, line, s);
	if (v > VALUE_MAX || (v > 0 && v < VALUE_MIN))
		die("%s:%zu: value %.40s is outside 1e-100..1e100; choose another unit",
		    f->path, line, s);
	return v + 0.0;			/* -0 becomes 0 */
}

static struct row parse_row(const struct file *f, size_t line, const char *text)
{
	struct row r = { .line = line };
	char *field[5], *p = strdup(text);
	size_t n, k;

	if (!p)
		die("out of memory at %s:%zu", f->path, line);
	for (n = 0; p; n++) {
		char *tab = strchr(p, '\t');

		if (tab)
			*tab++ = '\0';
		if (n < 5)
			field[n] = p;
		p = tab;
	}
	if (n != 5)
		die("%s:%zu: %zu columns instead of 5; expected tab-separated boot, metric, unit, kind, value",
		    f->path, line, n);
	for (n = 0; n < 4; n++)
		if (!*field[n])
			die("%s:%zu: column %zu is empty; name it", f->path, line, n + 1);
	r.boot = field[0];
	r.metric = field[1];
	r.unit = field[2];
	for (k = 0; k < ARRAY_SIZE(kind_name) && strcmp(field[3], kind_name[k]); k++)
		;
	if (k == ARRAY_SIZE(kind_name))
		die("%s:%zu: kind \"%.40s\" is unknown; use count, time or rate",
		    f->path, line, field[3]);
	r.kind = (enum kind)k;
	r.value = parse_value(f, line, field[4]);
	return r;
}

static int cmp_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int cmp_row(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	int c = strcmp(x->metric, y->metric);

	if (!c)
		c = strcmp(x->boot, y->boot);
	return c ? c : cmp_double(&x->value, &y->value);
}

static struct file read_file(const char *path)
{
	struct file f = { .path = path };
	FILE *in = fopen(path, "r");
	size_t size = 0, line = 0, max = 0, i;
	bool header = false;
	char *buf = NULL;
	ssize_t got;

	if (!in)
		die("%s: %s; give the samples.tsv of a run", path, strerror(errno));
	while (errno = 0, (got = getline(&buf, &size, in)) > 0) {
		size_t len = (size_t)got;

		line++;
		if (buf[len - 1] != '\n')
			die("%s:%zu: the last line has no newline, it may be cut; repeat the run",
			    path, line);
		buf[--len] = '\0';
		if (len && buf[len - 1] == '\r')
			buf[--len] = '\0';
		for (i = 0; i < len; i++)
			if (((unsigned char)buf[i] < ' ' && buf[i] != '\t') || buf[i] == 0x7f)
				die("%s:%zu: control character 0x%02x; this is not a samples.tsv",
				    path, line, (unsigned int)(unsigned char)buf[i]);
		if (buf[0] == '#')
			continue;
		if (!header) {
			if (strcmp(buf, HEADER))
				die("%s:%zu: no header; expected tab-separated boot, metric, unit, kind, value",
				    path, line);
			header = true;
			continue;
		}
		if (f.n == max)
			f.row = alloc(f.row, max = max ? 2 * max : 64, sizeof(*f.row));
		f.row[f.n++] = parse_row(&f, line, buf);
	}
	if (ferror(in))
		die("%s: %s; give the samples.tsv of a run", path, strerror(errno));
	fclose(in);
	free(buf);
	if (!f.n)
		die("%s: no samples; did the run fail?", path);
	qsort(f.row, f.n, sizeof(*f.row), cmp_row);
	return f;
}

/* ---- statistics ---- */

static uint64_t splitmix64(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static size_t below(uint64_t *state, size_t n)
{
	return (size_t)(((splitmix64(state) >> 32) * (uint64_t)n) >> 32);
}

/* A metric's own stream: FNV-1a of its name on top of the seed. */
static uint64_t stream(uint64_t seed, const char *name)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325) ^ splitmix64(&seed);

	while (*name)
		h = (h ^ (unsigned char)*name++) * UINT64_C(0x100000001b3);
	return h;
}

static double mean_of(const double *v, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += v[i];
	return sum / (double)n;
}

static double variance(const double *v, size_t n, double mean)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += (v[i] - mean) * (v[i] - mean);
	return n > 1 ? sum / (double)(n - 1) : 0;
}

static void side_free(struct side *s)
{
	free(s->v);
	free(s->rank);
	free(s->start);
}

/* The rows of one metric: sorted by boot, then value, so input order is forgotten. */
static struct side side_make(const struct row *row, size_t n)
{
	struct side s = { .n = n };

	s.v = alloc(NULL, n, sizeof(*s.v));
	s.rank = alloc(NULL, n, sizeof(*s.rank));
	s.start = alloc(NULL, n + 1, sizeof(*s.start));
	for (size_t i = 0; i < n; i++) {
		s.v[i] = row[i].value;
		if (!i || strcmp(row[i].boot, row[i - 1].boot))
			s.start[s.nboots++] = i;
	}
	s.start[s.nboots] = n;
	if (!n)
		return s;
	qsort(s.v, n, sizeof(*s.v), cmp_double);
	for (size_t i = 0; i < n; i++)
		s.rank[i] = (size_t)((double *)bsearch(&row[i].value, s.v, n, sizeof(*s.v),
						       cmp_double) - s.v);
	s.median = (s.v[(n - 1) / 2] + s.v[n / 2]) / 2;
	s.mean = mean_of(s.v, n);
	/* equal samples have no variance, even if their mean is rounded */
	s.sd = s.v[0] < s.v[n - 1] ? sqrt(variance(s.v, n, s.mean)) : 0;
	return s;
}

/* Median of one resample; hit[] has s->n zeros on entry and again on return. */
static double resample(const struct side *s, size_t *hit, uint64_t *rng)
{
	size_t total = 0, seen = 0, i = 0;
	double lo, hi;

	for (size_t b = 0; b < s->nboots; b++) {
		size_t boot = below(rng, s->nboots);
		size_t first = s->start[boot], n = s->start[boot + 1] - first;

		for (size_t k = 0; k < n; k++)
			hit[s->rank[first + below(rng, n)]]++;
		total += n;
	}
	while (seen + hit[i] <= (total - 1) / 2)
		seen += hit[i++];
	lo = s->v[i];
	while (seen + hit[i] <= total / 2)
		seen += hit[i++];
	hi = s->v[i];
	memset(hit, 0, s->n * sizeof(*hit));
	return (lo + hi) / 2;
}

static struct result bootstrap(const struct side *s, const struct side *p, uint64_t rng)
{
	size_t *hit = alloc(NULL, s->n + p->n, sizeof(*hit));
	double *rep = alloc(NULL, RESAMPLES, sizeof(*rep));
	bool swap = s->mean > p->mean;	/* exchanged files draw the same resamples */
	struct result r = { .absolute = !(s->v[0] > 0) };

	memset(hit, 0, (s->n + p->n) * sizeof(*hit));
	for (size_t i = 0; i < RESAMPLES; i++) {
		double a = resample(swap ? p : s, hit, &rng);
		double b = resample(swap ? s : p, hit, &rng);
		double old = swap ? b : a, new = swap ? a : b;

		rep[i] = r.absolute ? new - old : (new - old) / old;
	}
	qsort(rep, RESAMPLES, sizeof(*rep), cmp_double);
	r.low = rep[RANK_LOW];
	r.high = rep[RANK_HIGH];
	r.se = sqrt(variance(rep, RESAMPLES, mean_of(rep, RESAMPLES)));
	free(rep);
	free(hit);
	return r;
}

/* The size of the lower group of two, 0 if there is one group. */
static size_t bimodal(const struct side *s)
{
	size_t min = (s->n + 4) / 5, cut = 0, units = s->nboots;
	double n = (double)s->n, total = s->sd * s->sd * (n - 1), best = 0, sum = 0;

	if (s->n < MIN_BIMODAL || !(s->sd > 0))
		return 0;
	for (size_t k = 1; k <= s->n - min; k++) {
		double between;

		sum += s->v[k - 1] - s->mean;
		between = sum * sum / (double)k + sum * sum / (n - (double)k);
		if (k >= min && between > best) {
			best = between;
			cut = k;
		}
	}
	/* Boots that lie wholly in one group are one observation each. */
	for (size_t b = 0; b < s->nboots; b++)
		if (s->rank[s->start[b]] < cut && s->rank[s->start[b + 1] - 1] >= cut)
			units = s->n;
	n = (double)units;
	return units >= MIN_BIMODAL && 1 - best / total < 0.25 - 0.66 / sqrt(n) + 0.1 / n ? cut : 0;
}

/* Regularised incomplete beta function I_x(a, b), all terms positive. */
static double inc_beta(double x, double a, double b)
{
	double term = 1, sum = 1;

	if (x <= 0)
		return 0;
	if (x > 0.5)
		return 1 - inc_beta(1 - x, b, a);
	for (double n = 0; term > 1e-17 * sum; n++)
		sum += term *= (a + b + n) / (a + 1 + n) * x;
	return exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) * sum / a;
}

/* The t that a Student variable leaves with probability 1 - conf, on both ends together. */
static double t_quantile(double conf, double df)
{
	double low = 0, high = 1e6;

	for (int i = 0; i < 80; i++) {
		double t = (low + high) / 2;

		if (inc_beta(df / (df + t * t), df / 2, 0.5) > 1 - conf)
			low = t;
		else
			high = t;
	}
	return high;
}

static bool welch_differs(const double *x, size_t nx, const double *y, size_t ny)
{
	double mx = mean_of(x, nx), my = mean_of(y, ny);
	double ex = variance(x, nx, mx) / (double)nx, ey = variance(y, ny, my) / (double)ny;
	double part, df;

	if (!(ex + ey > 0))
		return mx < my || mx > my;
	part = ex / (ex + ey);
	df = 1 / (part * part / (double)(nx - 1) + (1 - part) * (1 - part) / (double)(ny - 1));
	return fabs(mx - my) / sqrt(ex + ey) > t_quantile(0.95, df);
}

/* ---- output ---- */

__attribute__((format(printf, 2, 3)))
static void add_note(char *note, const char *fmt, ...)
{
	size_t len = strlen(note);
	va_list ap;

	if (len)
		len += (size_t)snprintf(note + len, NOTE_SIZE - len, "; ");
	if (len >= NOTE_SIZE)
		return;
	va_start(ap, fmt);
	vsnprintf(note + len, NOTE_SIZE - len, fmt, ap);
	va_end(ap);
}

/* Whole numbers in full, others with 10 digits. Four results stay valid. */
static const char *num(double v, bool sign)
{
	static char buf[4][40];
	static unsigned int next;
	char *s = buf[next++ % 4];
	bool whole = fabs(v) < 1e21 && !(v < floor(v)) && !(v > floor(v));

	sign = sign && fabs(v) > 0;
	snprintf(s, sizeof(buf[0]), whole ? (sign ? "%+.0f" : "%.0f") : (sign ? "%+.10g" : "%.10g"),
		 v);
	return s;
}

/* A change as fraction: percent with 2 decimals, or 3 digits where that is 0 or very long. */
static const char *pct(double v, bool absolute, bool sign)
{
	static char buf[4][48];
	static unsigned int next;
	char *s = buf[next++ % 4];
	double p = 100 * v;

	if (absolute)
		snprintf(s, sizeof(buf[0]), "abs:%s", num(v, sign));
	else if (!(fabs(p) > 0))
		snprintf(s, sizeof(buf[0]), "0.00");
	else if (fabs(p) >= 0.1 && fabs(p) < 1e7)
		snprintf(s, sizeof(buf[0]), sign ? "%+.2f" : "%.2f", p);
	else
		snprintf(s, sizeof(buf[0]), sign ? "%+.3g" : "%.3g", p);
	return s;
}

static bool note_bimodal(char *note, const struct side *s, const struct side *p)
{
	bool found = false;

	for (const struct side *side = s; side; side = side == s ? p : NULL) {
		size_t cut = bimodal(side);

		if (!cut)
			continue;
		found = true;
		add_note(note, "%s: %zu samples %s..%s and %zu samples %s..%s",
			 side == s ? "stock" : "patched",
			 cut, num(side->v[0], false), num(side->v[cut - 1], false),
			 side->n - cut, num(side->v[cut], false), num(side->v[side->n - 1], false));
	}
	return found;
}

/* Why this metric must not be compared, NULL if it may be. */
static const char *refusal(enum kind kind, const struct side *s, const struct side *p)
{
	if (!s->n || !p->n)
		return s->n ? "only in stock" : "only in patched";
	if (s->n < MIN_SAMPLES || p->n < MIN_SAMPLES)
		return "needs 5 samples on each side";
	if (kind != COUNT && (s->nboots < 2 || p->nboots < 2))
		return "one boot only";
	return NULL;
}

static void print_tsv(const struct row *id, const struct side *s, const struct side *p,
		      uint64_t seed)
{
	const char *verdict, *why = refusal(id->kind, s, p);
	double max, diff = p->median - s->median;
	char note[NOTE_SIZE] = "";
	struct result r;

	printf("%s\t%s\t%s\t%zu\t%zu\t", id->metric, id->unit, kind_name[id->kind], s->n, p->n);
	if (why) {
		printf("-\t-\t-\t-\t-\ttoo few samples\t%s\n", why);
		return;
	}
	max = fmax(s->v[s->n - 1], p->v[p->n - 1]);
	if (max >= EXACT_MAX)		/* 2^53 + 1 is read as 2^53 */
		add_note(note, "2^53 or more: values closer than %s are one",
			 num(nextafter(max, INFINITY) - max, false));
	printf("%s\t%s\t", num(s->median, false), num(p->median, false));
	if (!(s->sd > 0) && !(p->sd > 0)) {
		bool absolute = !(s->median > 0) && diff > 0;

		if (absolute)
			add_note(note, "stock is 0: change in %s", id->unit);
		verdict = diff < 0 ? "lower" : diff > 0 ? "higher" : "equal";
		if (*verdict != 'e')
			add_note(note, "median %s %s", num(diff, true), id->unit);
		printf("%s\texact\texact\t%s\t%s\n",
		       pct(absolute || *verdict == 'e' ? diff : diff / s->median, absolute, true),
		       verdict, *note ? note : "-");
		return;
	}
	if (note_bimodal(note, s, p)) {
		printf("-\t-\t-\tbimodal\t%s\n", note);
		return;
	}
	r = bootstrap(s, p, stream(seed, id->metric));
	r.change = r.absolute ? diff : diff / s->median;
	if (r.absolute)
		add_note(note, "stock has a sample of 0: change in %s", id->unit);
	if (id->kind != COUNT && (s->nboots < FEW_BOOTS || p->nboots < FEW_BOOTS))
		add_note(note, "%zu and %zu boots only: the interval may be too narrow",
			 s->nboots, p->nboots);
	if (r.high < 0 && r.change < 0)
		verdict = "lower";
	else if (r.low > 0 && r.change > 0)
		verdict = "higher";
	else
		verdict = "no difference shown";
	if (*verdict != 'n')
		add_note(note, "median %s %s", num(diff, true), id->unit);
	else if (r.se > 0)
		add_note(note, "smallest visible change %s %s",
			 pct(MDE_FACTOR * r.se, r.absolute, false), r.absolute ? id->unit : "%");
	else
		add_note(note, "the median is the same in every resample");
	printf("%s\t%s\t%s\t%s\t%s\n", pct(r.change, r.absolute, true),
	       pct(r.low, r.absolute, true), pct(r.high, r.absolute, true), verdict, note);
}

static void mm_cell(double v, double stock, bool base, bool higher_is_better, bool star)
{
	double change = base ? 0 : (higher_is_better ? v - stock : stock - v) / stock * 100;
	char text[32];

	if (!(fabs(change) >= 0.005))	/* also 0 / 0, and no -0.00 */
		change = 0;
	if (!base && !(stock > 0) && v > 0)
		snprintf(text, sizeof(text), "n/a");
	else
		snprintf(text, sizeof(text), fabs(change) < 1e5 ? "%.2f%%" : "%.3g%%", change);
	printf((v > 0 && v < 0.1) || v >= 1e13 ? " %16.4g %c%9s%c" : " %16.2f %c%9s%c",
	       v, star ? '*' : '(', text, star ? '*' : ')');
}

static void print_mmtests(const struct row *id, const struct side *s, const struct side *p)
{
	const char *why = refusal(id->kind, s, p);
	const struct side *side[2] = { s, p };
	const char *name[5] = { "Min", id->kind == RATE ? "Hmean" : "Amean", "Stddev", "CoeffVar", "Max" };
	double cell[5][2], *x[2];
	char label[80], note[NOTE_SIZE] = "";
	bool zero = false, differs;

	snprintf(label, sizeof(label), "%s[%s]", id->metric, id->unit);
	if (why) {
		printf("%-9s %-28s refused: too few samples (%s)\n", name[1], label, why);
		return;
	}
	for (int i = 0; i < 2; i++) {
		size_t n = side[i]->n;

		x[i] = alloc(NULL, n, sizeof(*x[i]));
		zero = zero || (id->kind == RATE && !(side[i]->v[0] > 0));
		for (size_t k = 0; k < n; k++)
			x[i][k] = id->kind == RATE && side[i]->v[k] > 0 ? 1 / side[i]->v[k] : side[i]->v[k];
		cell[0][i] = side[i]->v[0];
		cell[1][i] = side[i]->mean;
		if (id->kind == RATE)	/* a rate of 0 makes the harmonic mean 0 */
			cell[1][i] = side[i]->v[0] > 0 ? 1 / mean_of(x[i], n) : 0;
		cell[2][i] = side[i]->sd;
		cell[3][i] = side[i]->sd > 0 ? 100 * side[i]->sd / side[i]->mean : 0;
		cell[4][i] = side[i]->v[n - 1];
	}
	if (s->sd > 0 || p->sd > 0)	/* no test on 1/0: no star */
		differs = !zero && welch_differs(x[0], s->n, x[1], p->n);
	else
		differs = s->v[0] < p->v[0] || s->v[0] > p->v[0];
	for (int k = 0; k < 5; k++) {
		bool better = id->kind == RATE && k != 2 && k != 3;

		printf("%-9s %-28s", name[k], label);
		mm_cell(cell[k][0], cell[k][0], true, better, false);
		mm_cell(cell[k][1], cell[k][0], false, better, k == 1 && differs);
		putchar('\n');
	}
	if (note_bimodal(note, s, p))
		printf("# %s is bimodal, its mean describes neither group: %s\n", id->metric, note);
	free(x[0]);
	free(x[1]);
}

/* ---- main ---- */

static const char usage[] =
"usage: ab [--mmtests] [--seed N] STOCK.tsv PATCHED.tsv\n"
"Compare the samples of two kernels: medians, change, 95 % interval and a verdict per metric.\n"
"  --mmtests   the table of mmtests (+ is better, *x%* is significant) instead\n"
"  --seed N    seed of the bootstrap, default 1: the same input gives the same bytes\n"
"Exit status: 0 compared, 2 a metric was refused or ab could not run.\n"
"Examples:\n"
"  ab out/7.3/stock/bench/run-1/samples.tsv out/7.3/all/bench/run-1/samples.tsv\n"
"  ab --mmtests stock.tsv patched.tsv\n";

/* Length of the run of rows with the same metric; they must agree on unit and kind. */
static size_t group(const struct file *f, size_t at)
{
	const struct row *first = &f->row[at];
	size_t n;

	for (n = 1; at + n < f->n && !strcmp(f->row[at + n].metric, first->metric); n++)
		if (f->row[at + n].line < first->line)
			first = &f->row[at + n];
	for (size_t i = at; i < at + n; i++)
		if (f->row[i].kind != first->kind || strcmp(f->row[i].unit, first->unit))
			die("%s:%zu: metric %s is in %s (%s) here and in %s (%s) in line %zu; use two names",
			    f->path, f->row[i].line, first->metric, f->row[i].unit,
			    kind_name[f->row[i].kind], first->unit, kind_name[first->kind], first->line);
	return n;
}

/* Walk both files' metrics in order of name. print is false for the checking pass. */
static size_t compare(const struct file f[2], bool mmtests, uint64_t seed, bool print)
{
	size_t at[2] = { 0, 0 }, refused = 0;

	while (at[0] < f[0].n || at[1] < f[1].n) {
		const struct row *r[2];
		struct side s[2];
		size_t n[2] = { 0, 0 };
		int c;

		r[0] = &f[0].row[at[0]];
		r[1] = &f[1].row[at[1]];
		if (at[0] == f[0].n || at[1] == f[1].n)
			c = at[0] == f[0].n ? 1 : -1;
		else
			c = strcmp(r[0]->metric, r[1]->metric);
		if (c <= 0)
			n[0] = group(&f[0], at[0]);
		if (c >= 0)
			n[1] = group(&f[1], at[1]);
		if (!c && (r[0]->kind != r[1]->kind || strcmp(r[0]->unit, r[1]->unit)))
			die("metric %s is in %s (%s) in %s, in %s (%s) in %s; use two names",
			    r[0]->metric, r[0]->unit, kind_name[r[0]->kind], f[0].path,
			    r[1]->unit, kind_name[r[1]->kind], f[1].path);
		s[0] = side_make(r[0], n[0]);
		s[1] = side_make(r[1], n[1]);
		refused += refusal(r[c > 0]->kind, &s[0], &s[1]) != NULL;
		if (print && mmtests)
			print_mmtests(r[c > 0], &s[0], &s[1]);
		else if (print)
			print_tsv(r[c > 0], &s[0], &s[1], seed);
		side_free(&s[0]);
		side_free(&s[1]);
		at[0] += n[0];
		at[1] += n[1];
	}
	return refused;
}

static uint64_t parse_seed(const char *s)
{
	unsigned long long v;
	char *end;

	errno = 0;
	v = s ? strtoull(s, &end, 10) : 0;
	if (!s || !*s || s[strspn(s, "0123456789")] || errno || v > UINT64_MAX)
		die("--seed needs a whole number from 0 to 2^64 - 1, not \"%.40s\"", s ? s : "");
	return v;
}

int main(int argc, char **argv)
{
	static struct file f[2];	/* static: still reachable for the leak checker */
	const char *path[2];
	uint64_t seed = 1;
	bool mmtests = false;
	size_t refused;
	int n = 0;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help"))
			return fputs(usage, stdout) < 0 || fflush(stdout) ? 2 : 0;
		if (!strcmp(argv[i], "--mmtests"))
			mmtests = true;
		else if (!strcmp(argv[i], "--seed"))
			seed = parse_seed(argv[++i])	/* argv ends with NULL */;
		else if (argv[i][0] == '-')
			die("option \"%.40s\" is unknown; see ab -h", argv[i]);
		else if (n == 2)
			die("a third file \"%.80s\"; give STOCK.tsv and PATCHED.tsv only", argv[i]);
		else
			path[n++] = argv[i];
	}
	if (n < 2)
		die("%d of 2 files given; usage: ab STOCK.tsv PATCHED.tsv, see ab -h", n);
	f[0] = read_file(path[0]);
	f[1] = read_file(path[1]);
	compare(f, mmtests, seed, false);
	if (mmtests)
		printf("%38s %28s %29s\n", "", "stock", "patched");
	else
		puts("metric\tunit\tkind\tn_stock\tn_patched\tmedian_stock\tmedian_patched\t"
		     "change_pct\tci_low_pct\tci_high_pct\tverdict\tnote");
	refused = compare(f, mmtests, seed, true);
	if (fflush(stdout) || ferror(stdout))
		die("standard output: %s; the table is incomplete", strerror(errno));
	if (refused)
		die("%zu metric(s) refused: too few samples; take 5 or more a side, from 2 boots or more",
		    refused);
	return 0;
}
