package signoff_test

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/waybill-release/waybill/pkg/govern/signoff"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// part reads a part of the tree of the good enhancement, and then the reviews
// of the directory that holds the SIGs.
func part(t *testing.T, w *world, of string) bool {
	t.Helper()
	w.check(t) // for template and record
	sub, tree := fstest.MapFS{}, fstest.MapFS{}
	for name, text := range w.files {
		if rest, inside := strings.CutPrefix(name, of+"/"); inside {
			sub[rest] = &fstest.MapFile{Data: []byte(text)}
		}
		if rest, inside := strings.CutPrefix(name, "keps/"); inside {
			tree[rest] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	set, err := signoff.Read(sub, of[strings.LastIndex(of, "/")+1:])
	if err != nil {
		t.Fatal(err)
	}
	if !set.LacksReviews() {
		t.Errorf("%s lacks no review, and has none", of)
	}
	found, err := set.ReadReviews(tree, "../..")
	if err != nil {
		t.Fatal(err)
	}
	set.Reviewers, w.q.Set = []string{"pilot"}, set
	return found
}

// TestPartOfATree: one enhancement, and those of one SIG, are judged with the
// reviews of the tree that they are of.
func TestPartOfATree(t *testing.T) {
	for _, of := range []string{dir, "keps/sig-release"} {
		w := good(t)
		if !part(t, w, of) {
			t.Errorf("%s: no reviews", of)
		}
		if v, r := signoff.Check(w.q); v.Outcome() != verdict.Accepted || !r.Documents[0].ReviewApproved {
			t.Errorf("%s: %s: %v", of, v.Headline(), v.Findings)
		}
		w = good(t).change(t, review, "kep-number: 7001", "kep-number: 7002").change(t, readme, "- [x] (R) Production", "- [ ] (R) Production")
		part(t, w, of)
		v, _ := signoff.Check(w.q)
		if !slices.Equal(codes(v.Findings), []verdict.Code{verdict.SignoffApproval}) || !strings.Contains(v.Findings[0].Message, "../../prod-readiness/sig-release/7001.yaml") {
			t.Errorf("%s: %v", of, v.Findings)
		}
		w = good(t).change(t, readme, "- [x] (R) Production", "- [ ] (R) Production")
		delete(w.files, review)
		if part(t, w, of) {
			t.Errorf("%s: reviews where there are none", of)
		}
		v, _ = signoff.Check(w.q)
		if !slices.Equal(codes(v.Findings), []verdict.Code{verdict.SignoffApproval}) || !strings.Contains(v.Findings[0].Fix, "or from prod-readiness beside the directories of SIGs") {
			t.Errorf("%s: %v", of, v.Findings)
		}
	}
}

// failing cannot list its directories.
type failing struct{ fstest.MapFS }

func (f failing) ReadDir(string) ([]fs.DirEntry, error) { return nil, fs.ErrPermission }

// TestReviewsThatCannotBeRead are not the same as none.
func TestReviewsThatCannotBeRead(t *testing.T) {
	set, err := signoff.Read(fstest.MapFS{"kep.yaml": {Data: []byte(good(t).files[kep])}}, "7001-lantern")
	if err != nil {
		t.Fatal(err)
	}
	tree := fstest.MapFS{strings.TrimPrefix(review, "keps/"): {}}
	if found, err := set.ReadReviews(tree, ".."); !found || err != nil {
		t.Errorf("%t, %v, want the review", found, err)
	}
	if _, err := set.ReadReviews(failing{tree}, ".."); verdict.FindingOf("", err).Code != verdict.PlaceDown {
		t.Errorf("%v, want %s", err, verdict.PlaceDown)
	}
}

// TestMilestoneThatIsNone: no document targets what is no milestone.
func TestMilestoneThatIsNone(t *testing.T) {
	for milestone, skipped := range map[string]int{"v0.0": 0, "soon": 1} {
		w := good(t).change(t, kep, `latest-milestone: "v1.37"`, `latest-milestone: "v0.0"`)
		w.q.Milestone = milestone
		if _, r := w.check(t); len(r.Skipped) != skipped {
			t.Errorf("%s: skipped %q, want %d", milestone, r.Skipped, skipped)
		}
	}
}
