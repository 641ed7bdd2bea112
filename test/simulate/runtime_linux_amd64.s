//go:build simulate

#include "textflag.h"

// func thread() uintptr: the m of this goroutine, by the offset in g that Go 1.26 has.
TEXT ·thread(SB), NOSPLIT, $0-8
	MOVQ (TLS), AX
	MOVQ 48(AX), AX
	MOVQ AX, ret+0(FP)
	RET

// func text() (from, to uintptr)
TEXT ·text(SB), NOSPLIT, $0-16
	MOVQ $runtime·text(SB), AX
	MOVQ AX, from+0(FP)
	MOVQ $runtime·etext(SB), AX
	MOVQ AX, to+8(FP)
	RET
