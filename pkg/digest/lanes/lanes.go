// Package lanes hashes several messages at once, each in a lane of the wide
// registers of the processor: sixteen with SHA-256, eight with SHA-512.
//
// A release has hundreds of files, and one message can only be hashed block
// after block; so the room that a single hash leaves idle is given to the
// others. It is the compression function of FIPS 180-4 (6.2.2, 6.4.2) alone:
//
//	states := []*[8]uint64{&a, &b, &c} // as crypto/sha512 has them
//	lanes.SHA512(states, [][]byte{x, y, z})
//
// Padding, lengths and results stay with the standard library, whose states
// these are; package digest does that, and holds every file of its tests
// against the standard library. Where [Available] says no, nothing here may be
// called. The round function is the same sequence of instructions whatever the
// bytes are: no table is looked up, and no branch depends on them.
package lanes

import "fmt"

const (
	// Width256 is how many messages SHA256 takes at most.
	Width256 = 16
	// Width512 is how many messages SHA512 takes at most.
	Width512 = 8

	block256 = 64
	block512 = 128
)

// SHA256 adds whole blocks to each state: those of data[i] to states[i]. The
// data are of one length. It panics unless [Available], and if there are more
// messages than lanes, none, or parts of blocks.
func SHA256(states []*[8]uint32, data [][]byte) {
	n := blocks(len(states), Width256, data, block256)
	if n == 0 {
		return
	}
	var in [8][Width256]uint32
	var from [Width256]*byte
	for lane := range from {
		from[lane] = &data[0][0] // a lane without a message reads somebody's, and is forgotten
	}
	for lane, state := range states {
		from[lane] = &data[lane][0]
		for word := range state {
			in[word][lane] = state[word]
		}
	}
	blocks256(&in, &from, n)
	for lane, state := range states {
		for word := range state {
			state[word] = in[word][lane]
		}
	}
}

// SHA512 is [SHA256] for the other hash.
func SHA512(states []*[8]uint64, data [][]byte) {
	n := blocks(len(states), Width512, data, block512)
	if n == 0 {
		return
	}
	var in [8][Width512]uint64
	var from [Width512]*byte
	for lane := range from {
		from[lane] = &data[0][0]
	}
	for lane, state := range states {
		from[lane] = &data[lane][0]
		for word := range state {
			in[word][lane] = state[word]
		}
	}
	blocks512(&in, &from, n)
	for lane, state := range states {
		for word := range state {
			state[word] = in[word][lane]
		}
	}
}

// blocks returns how many blocks each message has. What is read below here is
// not checked again, so everything is checked here.
func blocks(states, width int, data [][]byte, size int) int {
	if !Available() {
		panic("lanes: this processor has none")
	}
	if states == 0 || states > width || states != len(data) {
		panic(fmt.Sprintf("lanes: %d states and %d messages in %d lanes", states, len(data), width))
	}
	for _, d := range data {
		if len(d) != len(data[0]) || len(d)%size != 0 {
			panic(fmt.Sprintf("lanes: %d bytes beside %d, in blocks of %d", len(d), len(data[0]), size))
		}
	}
	return len(data[0]) / size
}
