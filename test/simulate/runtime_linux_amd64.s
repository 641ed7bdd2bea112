//go:build simulate

#include "textflag.h"

// func thread() uintptr: the m of this goroutine, by the offset in g that Go 1.26 has.
TEXT ·thread(SB), NOSPLIT, $0-8
	MOVQ (TLS), AX
	MOVQ 48(AX), AX
	MOVQ AX, ret+0(FP)
	RET
