package bounds

import (
	"bytes"
	"iter"
	"math/rand/v2"
	"regexp"
	"slices"
)

// piece is what mutants are made of: a word, a number, a text in quotes, or one
// character.
var piece = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|[A-Za-z0-9_.-]+|\s+|.`)

// odd are what may stand in the place of a piece.
var odd = [][]byte{
	nil, []byte("-1"), []byte("0"), []byte("1e999"), []byte("9223372036854775808"), []byte(`""`), []byte("null"), []byte("{}"), []byte("[]"),
	[]byte("\x00"), []byte("\xff\xfe"), []byte("\u202e"), []byte("../../x"), bytes.Repeat([]byte("["), 2000), bytes.Repeat([]byte("x"), 5000),
}

// Mutants are changes of a good document, the same for a seed: lines and pieces
// that are left out, doubled, moved or replaced, and ends that are missing. What
// comes of them is often read far before it is refused, if it is, which random
// bytes are not.
func Mutants(good []byte, seed uint64, n int) iter.Seq[[]byte] {
	lines, pieces := bytes.SplitAfter(good, []byte("\n")), piece.FindAll(good, -1)
	return func(yield func([]byte) bool) {
		dice := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // repeatable, and nothing secret
		for range n {
			parts := slices.Clone(lines)
			if len(lines) < 4 || dice.IntN(3) > 0 {
				parts = slices.Clone(pieces)
			}
			for range 1 + dice.IntN(3) {
				parts = changed(parts, dice)
			}
			if !yield(bytes.Join(parts, nil)) {
				return
			}
		}
	}
}

func changed(parts [][]byte, dice *rand.Rand) [][]byte {
	if len(parts) == 0 {
		return [][]byte{odd[dice.IntN(len(odd))]}
	}
	i, j := dice.IntN(len(parts)), dice.IntN(len(parts))
	switch dice.IntN(6) {
	case 0:
		return slices.Delete(parts, i, i+1)
	case 1:
		return slices.Insert(parts, j, parts[i])
	case 2:
		parts[i], parts[j] = parts[j], parts[i]
	case 3:
		parts[i] = parts[j]
	case 4:
		parts[i] = odd[dice.IntN(len(odd))]
	case 5:
		if dice.IntN(4) == 0 {
			return parts[:i]
		}
		return slices.Delete(parts, min(i, j), min(max(i, j), min(i, j)+8))
	}
	return parts
}
