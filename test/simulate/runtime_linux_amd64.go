//go:build simulate

package simulate

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// Repeats reports whether the same seed makes the same run in this build.
const Repeats = true

func thread() uintptr

//go:linkname threads runtime.allm
var threads uintptr

// text is where the code of this program is.
func text() (from, to uintptr)

//go:linkname retake runtime.retake
func retake(now int64) uint32

//go:linkname cheaprand runtime.cheaprand
func cheaprand() uint32

//go:linkname anyNumber runtime.rand
func anyNumber() uint64

//go:linkname temporary os.nextRandom
func temporary() string

//go:linkname mutexTime internal/sync.runtime_nanotime
func mutexTime() int64

// instead of [os.File.Sync], of the function that takes the processor from a goroutine
// which has it for long, or is in a system call for long, of the clock by which a mutex
// prefers those that wait for long, and of the numbers in names of temporary files.
var (
	instead      = func(f *os.File) error { return syncing(f) }
	insteadNever = func(int64) uint32 { return 0 }
	insteadZero  = func() int64 { return 0 }
	insteadNext  = func() string { return fmt.Sprintf("%010d", named.Add(1)) }
)

// named is how many temporary files have names.
var named atomic.Uint64

// chosen is what Go draws instead of any other random number, which decides the order of
// maps, until the next choice.
var chosen uint64 = 1

// choices are where a thread has its cheap random number, which decides the order of
// cases in a select, and of timers that end at the same time.
var choices uintptr

// Prepare makes syncs known, and goroutines take turns as the seed says. The caller uses
// one processor.
func Prepare() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	words := unsafe.Slice((*uint64)(unsafe.Pointer(thread())), 250) //nolint:govet // it does not move
	before := append([]uint64{}, words...)
	_ = cheaprand()
	for i, word := range words {
		if word-before[i] == added { // what a number adds to it
			choices = uintptr(i) * 8
		}
	}
	if choices == 0 {
		return errors.New("simulate: this version of Go has its random numbers elsewhere")
	}
	runtime.MemProfileRate = 0 // its samples are drawn
	return errors.Join(
		stopCounting(),
		write(reflect.ValueOf(anyNumber).Pointer(), load(&chosen)),
		replace(reflect.ValueOf(temporary).Pointer(), unsafe.Pointer(&insteadNext)),
		replace(reflect.ValueOf((*os.File).Sync).Pointer(), unsafe.Pointer(&instead)),
		replace(reflect.ValueOf(retake).Pointer(), unsafe.Pointer(&insteadNever)),
		replace(reflect.ValueOf(mutexTime).Pointer(), unsafe.Pointer(&insteadZero)),
	)
}

// step is what a cheap random number adds to the one before it, in machine code.
var step = binary.LittleEndian.AppendUint64(nil, added)

const added = 0xa0761d6478bd642f

// stopCounting lets all cheap random numbers of a thread be the same until the next
// choice: Go draws some for its caches, which know what earlier runs did.
func stopCounting() error {
	from, to := text()
	code := unsafe.Slice((*byte)(unsafe.Pointer(from)), to-from) //nolint:govet // code, which does not move
	many := 0
	for at := bytes.Index(code, step); at >= 0; at = bytes.Index(code, step) {
		if err := write(from+uintptr(to-from)-uintptr(len(code))+uintptr(at), make([]byte, 8)); err != nil {
			return err
		}
		code = code[at+8:]
		many++
	}
	if many < 10 {
		return errors.New("simulate: this version of Go draws its random numbers otherwise")
	}
	return nil
}

// load is a function, in machine code, that returns a number.
func load(number *uint64) []byte {
	code := binary.LittleEndian.AppendUint64([]byte{0x48, 0xb8}, uint64(uintptr(unsafe.Pointer(number)))) // MOVQ number, AX
	return append(code, 0x48, 0x8b, 0x00, 0xc3)                                                           // MOVQ (AX), AX; RET
}

// replace writes a jump to a function over the first instructions of another.
func replace(at uintptr, by unsafe.Pointer) error {
	jump := binary.LittleEndian.AppendUint64([]byte{0x48, 0xba}, *(*uint64)(by)) // MOVQ by, DX
	return write(at, append(jump, 0xff, 0x22))                                   // JMP (DX)
}

// write changes the code of this program.
func write(at uintptr, code []byte) error {
	first := at &^ uintptr(os.Getpagesize()-1)
	pages := unsafe.Slice((*byte)(unsafe.Pointer(first)), at+uintptr(len(code))-first) //nolint:govet // code, which does not move
	if err := syscall.Mprotect(pages, syscall.PROT_READ|syscall.PROT_WRITE|syscall.PROT_EXEC); err != nil {
		return err
	}
	copy(pages[at-first:], code)
	return nil
}

// choose makes all threads choose as the dice say.
func choose(dice *rand.Rand) {
	number := dice.Uint64()
	for m := threads; m != 0; m = *(*uintptr)(unsafe.Pointer(m + 0x160)) { //nolint:govet // none moves
		*(*uint64)(unsafe.Pointer(m + choices)) = number //nolint:govet // it does not move
	}
	chosen = dice.Uint64() | 1
}

// collect collects garbage between runs: within one it could change who is next.
func collect() {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(3 << 30) // but not at any price
	var now runtime.MemStats
	if runtime.ReadMemStats(&now); now.HeapAlloc > 1<<28 {
		runtime.GC()
	}
}
