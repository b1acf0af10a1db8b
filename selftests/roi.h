/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Region markers for scripts/kcount.c, in user programs and kernel code alike.
 *
 *	#include "roi.h"
 *
 *	roi_start(3);
 *	work();
 *	roi_stop(3);
 *
 * The id is a constant, 0..127; 100..127 belong to selftests/calibrate.c. A
 * marker is one 8-byte NOP that carries its meaning in the displacement:
 *
 *	0f 1f 84 00 <disp32>	nopl disp32(%rax,%rax,1)
 *	disp32 = 0x4b43 << 16 | stop << 7 | id
 *
 * so without the plugin it costs one NOP. It is also a compiler barrier, not a
 * memory barrier. On other architectures than x86-64 it is nothing at all.
 *
 * For an id known only at run time define ROI_RUNTIME first: roi_mark(id, stop)
 * calls into a table of all markers, in user programs only.
 */
#ifndef ROI_H
#define ROI_H

#define ROI_MAGIC	0x4b43
#define ROI_IDS		128
#define ROI_STOP	0x80

#ifdef __x86_64__
#define ROI_MARK(id, stop) do {						\
	_Static_assert((id) >= 0 && (id) < ROI_IDS, "roi id is 0..127");\
	__asm__ __volatile__(".byte 0x0f, 0x1f, 0x84, 0x00\n\t"		\
			     ".long %c0"				\
			     : : "i" (ROI_MAGIC << 16 | (stop) | (id))	\
			     : "memory");				\
} while (0)
#else
#define ROI_MARK(id, stop) __asm__ __volatile__("" : : : "memory")
#endif

#define roi_start(id)	ROI_MARK(id, 0)
#define roi_stop(id)	ROI_MARK(id, ROI_STOP)

#ifdef ROI_RUNTIME
#ifdef __x86_64__
/* 16 bytes each: the marker, ret, padding; starts, then stops. */
__asm__(".pushsection .text\n"
	".balign 16\n"
	"roi_table:\n"
	".set roi_disp, 0x4b430000\n"
	".rept 256\n"
	".balign 16, 0xcc\n"
	".byte 0x0f, 0x1f, 0x84, 0x00\n"
	".long roi_disp\n"
	"ret\n"
	".set roi_disp, roi_disp + 1\n"
	".endr\n"
	".popsection\n");
extern const char roi_table[] __attribute__((visibility("hidden")));

static inline void roi_mark(unsigned int id, int stop)
{
	const char *entry = roi_table + 16 * ((id & 0x7f) | (stop ? ROI_STOP : 0));

	/* the call must not touch the red zone */
	__asm__ __volatile__("lea -128(%%rsp), %%rsp\n\t"
			     "call *%0\n\t"
			     "lea 128(%%rsp), %%rsp"
			     : : "r" (entry) : "memory");
}
#else
static inline void roi_mark(unsigned int id, int stop)
{
	(void)id;
	(void)stop;
}
#endif
#endif /* ROI_RUNTIME */

#endif /* ROI_H */
