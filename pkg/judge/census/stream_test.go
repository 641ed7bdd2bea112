package census_test

import (
	"errors"
	"iter"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/judge/census"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// stream is a list as it comes, and then an error, if there is one.
func stream(list []census.Item, failed error) iter.Seq2[census.Item, error] {
	return func(yield func(census.Item, error) bool) {
		for _, i := range list {
			if !yield(i, nil) {
				return
			}
		}
		if failed != nil {
			yield(census.Item{}, failed)
		}
	}
}

func TestStreamIsCompare(t *testing.T) {
	byName := func(a, b census.Item) int { return strings.Compare(a.Name, b.Name) }
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		want, have := world(r), world(r)
		slices.SortFunc(want, byName)
		slices.SortFunc(have, byName)
		got, err := census.Stream(stream(want, nil), stream(have, nil))
		if err != nil || !reflect.DeepEqual(got, census.Compare(want, have)) {
			t.Fatalf("seed %d: %v, %v; want %v", seed, got, err, census.Compare(want, have))
		}
	}
}

// What ends early, comes twice or out of order is no list: nothing that was
// found until then is told.
func TestStreamRefuses(t *testing.T) {
	a, b, c := item("a", "A"), item("b", "B"), item("c", "C")
	gone := errors.New("gone")
	again := stream([]census.Item{a, b}, nil)
	once := func(yield func(census.Item, error) bool) { // it cannot be read a second time
		again(yield)
		again = stream(nil, gone)
	}
	rows := []struct {
		name       string
		want, have iter.Seq2[census.Item, error]
		code       verdict.Code
	}{
		{"the wanted end early", stream([]census.Item{a}, gone), stream([]census.Item{a, b}, nil), verdict.InternalBug},
		{"the others end early", stream([]census.Item{a, b}, nil), stream([]census.Item{a}, gone), verdict.InternalBug},
		{"both end early", stream([]census.Item{a}, gone), stream([]census.Item{a}, gone), verdict.InternalBug},
		{"the wanted are gone when bytes differ", once, stream([]census.Item{a, item("b", "C")}, nil), verdict.InternalBug},
		{"one wanted twice", stream([]census.Item{a, b, b}, nil), stream([]census.Item{a, b}, nil), verdict.ManifestParse},
		{"one there twice", stream([]census.Item{a, b}, nil), stream([]census.Item{a, b, b}, nil), verdict.Extra},
		{"the wanted out of order", stream([]census.Item{b, a, c}, nil), stream([]census.Item{a, b, c}, nil), verdict.ManifestParse},
		{"the others out of order", stream([]census.Item{a, b, c}, nil), stream([]census.Item{a, c, b}, nil), verdict.Extra},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			findings, err := census.Stream(r.want, r.have)
			if err == nil || verdict.FindingOf("", err).Code != r.code || findings != nil {
				t.Errorf("%v, %v; want %s", findings, err, r.code)
			}
		})
	}
	if findings, err := census.Stream(stream([]census.Item{a, b, c}, nil), stream([]census.Item{a, b, c}, nil)); err != nil || len(findings) != 0 {
		t.Errorf("in order: %v, %v", findings, err)
	}
}
