package verdict

import (
	_ "embed"
	"slices"
	"strings"
)

// table has a row for each code, sorted by code:
//
//	# CODE OUTCOME: PHRASE
//	consumer: NEXT ACT
//	producer: NEXT ACT
//
// The consumer checks a release, the producer makes it; without a line of the
// producer both do the same. A phrase that begins with "n " tells what N objects
// are; any other is a clause about the whole release.
//
//go:embed table.txt
var table string

// again is the end of each act about unreadable input, {again} in the table.
// Fetching or signing the same bytes a second time does not make them readable.
const again = "update this program, which may be older than the form; if it is the newest, report what the message names"

// row is what follows the code in its row; empty if the table has none. Verdicts
// ask for each of many findings, so it is found by halves.
func (c Code) row() string {
	for rest := table; rest != ""; {
		middle := strings.LastIndexByte(rest[:len(rest)/2+1], '#')
		this, after, _ := strings.Cut(rest[middle+1:], "#")
		code, row, _ := strings.Cut(this[1:], " ")
		switch strings.Compare(string(c), code) {
		case 0:
			return row
		case 1:
			rest = after
		default:
			rest = rest[:max(middle, 0)]
		}
	}
	return ""
}

// Outcome is the outcome of a verdict with this finding. A code without a row is a
// bug in Waybill, never an acceptance.
func (c Code) Outcome() Outcome {
	word, _, _ := strings.Cut(c.row(), ":")
	all := []Outcome{Refused, Malformed, Unavailable}
	if i := slices.IndexFunc(all, func(o Outcome) bool { return o.String() == word }); i >= 0 {
		return all[i]
	}
	return Internal
}

// Fix is the next act of the producer of the release.
func (c Code) Fix() string { return c.NextAct(Producer) }

// NextAct is what an audience does about the code, unless the cause of a finding
// has an act of its own.
func (c Code) NextAct(a Audience) string {
	_, consumer, _ := strings.Cut(c.row(), "\nconsumer: ")
	consumer, rest, _ := strings.Cut(consumer, "\n")
	if producer, differs := strings.CutPrefix(rest, "producer: "); differs && a != Consumer {
		consumer = producer
	}
	return strings.Replace(strings.TrimSpace(consumer), "{again}", again, 1)
}

// brief is the code in two to seven words, and whether they complete a number of
// objects: "altered", as in "2 files altered", or "the manifest has expired", of the
// whole release. A code without a row is its own phrase.
func (c Code) brief() (phrase string, counted bool) {
	first, _, found := strings.Cut(c.row(), "\n")
	if !found {
		return strings.ToLower(string(c)), true
	}
	_, phrase, _ = strings.Cut(first, ": ")
	return strings.CutPrefix(phrase, "n ")
}

// Codes lists every code with a row, for documentation and tests.
func Codes() (list []Code) {
	for block := range strings.SplitSeq(table[2:], "\n# ") {
		code, _, _ := strings.Cut(block, " ")
		list = append(list, Code(code))
	}
	return list
}
