package slsa

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestMinimum(t *testing.T) {
	step := func(id string, level int, inputs ...string) Step { return Step{ID: id, Level: level, Inputs: inputs} }
	rows := []struct {
		name  string
		steps []Step
		want  string // empty when refused
	}{
		{"an artifact of source", []Step{step("a", 3)}, "3 a"},
		{"an input of a lower level", []Step{step("a", 3, "b"), step("b", 1)}, "1 a b"},
		{"an input of a higher level", []Step{step("a", 1, "b"), step("b", 3)}, "1 a"},
		{"the lowest is far away", []Step{step("a", 3, "b"), step("b", 2, "c"), step("c", 1)}, "1 a b c"},
		{"of two as low the nearest", []Step{step("a", 3, "b", "d"), step("b", 3, "c"), step("c", 1), step("d", 1)}, "1 a d"},
		{"of two as near the first by name", []Step{step("a", 3, "c", "b"), step("b", 1), step("c", 1)}, "1 a b"},
		{"an input of two", []Step{step("a", 3, "b", "c"), step("b", 3, "d"), step("c", 3, "d"), step("d", 0)}, "0 a b d"},
		{"an input named twice", []Step{step("a", 3, "b", "b"), step("b", 2)}, "2 a b"},
		{"a step that is no ancestor", []Step{step("a", 3), step("z", 0)}, "3 a"},
		{"a cycle that is no ancestor", []Step{step("a", 3), step("y", 0, "z"), step("z", 0, "y")}, "3 a"},
		{"an input of which nothing is known", []Step{step("a", 3, "b")}, ""},
		{"an artifact of which nothing is known", []Step{step("b", 3)}, ""},
		{"made of itself", []Step{step("a", 3, "a")}, ""},
		{"made of itself, far away", []Step{step("a", 3, "b"), step("b", 3, "c"), step("c", 3, "b")}, ""},
		{"a step twice", []Step{step("a", 3), step("a", 3)}, ""},
		{"a step without name", []Step{step("a", 3), step("", 3)}, ""},
		{"nothing", nil, ""},
	}
	for _, r := range rows {
		got, err := Minimum("a", r.steps)
		text := ""
		if err == nil {
			text = fmt.Sprintf("%d %s", got.Level, strings.Join(got.Path, " "))
		}
		if text != r.want {
			t.Errorf("%s: %q, %v, want %q", r.name, text, err, r.want)
		}
	}
	_, err := Minimum("a", []Step{step("a", 3, "b"), step("b", 3, "c"), step("c", 3, "b")})
	if err == nil || !strings.Contains(err.Error(), `"b" made of "c" made of "b"`) {
		t.Errorf("the cycle is not named: %v", err)
	}
}

// random makes an ancestry without cycles: inputs come later in the list.
func random(r *rand.Rand) []Step {
	steps := make([]Step, 1+r.IntN(12))
	for i := range steps {
		steps[i] = Step{ID: fmt.Sprint(i), Level: r.IntN(5)}
		for j := i + 1; j < len(steps); j++ {
			if r.IntN(3) == 0 {
				steps[i].Inputs = append(steps[i].Inputs, fmt.Sprint(j))
			}
		}
	}
	return steps
}

// slow is the definition: an artifact's own level, or less if an input has
// less.
func slow(steps []Step, i int) int {
	level := steps[i].Level
	for _, input := range steps[i].Inputs {
		var j int
		_, _ = fmt.Sscan(input, &j)
		level = min(level, slow(steps, j))
	}
	return level
}

// reaches reports whether step i was made of step j.
func reaches(steps []Step, i, j int) bool {
	return slices.ContainsFunc(steps[i].Inputs, func(input string) bool {
		var k int
		_, _ = fmt.Sscan(input, &k)
		return k == j || reaches(steps, k, j)
	})
}

func TestMinimumHolds(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 0))
		steps := random(r)
		got, err := Minimum("0", steps)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if want := slow(steps, 0); got.Level != want {
			t.Fatalf("seed %d: level %d, want %d", seed, got.Level, want)
		}
		last := got.Path[len(got.Path)-1]
		for i, id := range got.Path[1:] {
			if at := steps[slices.IndexFunc(steps, func(s Step) bool { return s.ID == got.Path[i] })]; !slices.Contains(at.Inputs, id) {
				t.Fatalf("seed %d: %v is no way", seed, got.Path)
			}
		}
		if at := slices.IndexFunc(steps, func(s Step) bool { return s.ID == last }); steps[at].Level != got.Level {
			t.Fatalf("seed %d: %s does not limit", seed, last)
		}
		shuffled := slices.Clone(steps)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if again, err := Minimum("0", shuffled); err != nil || again.String() != got.String() {
			t.Fatalf("seed %d: %s in another order, %s", seed, again, got)
		}
		i := r.IntN(len(steps))
		better := slices.Clone(steps)
		better[i].Level++
		if up, err := Minimum("0", better); err != nil || up.Level < got.Level {
			t.Fatalf("seed %d: a better step makes it worse", seed)
		}
		if n := len(steps); n > 1 {
			more := slices.Clone(steps)
			more[0].Inputs = append(slices.Clone(more[0].Inputs), fmt.Sprint(n-1))
			if down, err := Minimum("0", more); err != nil || down.Level > got.Level {
				t.Fatalf("seed %d: one more input makes it better", seed)
			}
			back := slices.Clone(steps)
			back[n-1].Inputs = []string{"0"}
			_, err := Minimum("0", back)
			if made := reaches(steps, 0, n-1); made != (err != nil) {
				t.Fatalf("seed %d: made of itself %t, %v", seed, made, err)
			}
		}
	}
}

// A chain of a hundred thousand steps takes neither the stack nor the day.
func TestMinimumOfALongChain(t *testing.T) {
	const n = 100_000
	steps := make([]Step, n)
	for i := range steps {
		steps[i] = Step{ID: fmt.Sprint(i), Level: 3, Inputs: []string{fmt.Sprint(i + 1)}}
	}
	steps[n-1] = Step{ID: fmt.Sprint(n - 1), Level: 1}
	got, err := Minimum("0", steps)
	if err != nil || got.Level != 1 || len(got.Path) != n {
		t.Errorf("level %d over %d steps, %v", got.Level, len(got.Path), err)
	}
}
