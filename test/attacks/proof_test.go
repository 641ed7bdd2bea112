package attacks

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// answering is a judge who answers the same about every image.
type answering func() *verdict.Verdict

func (a answering) Image(context.Context, gate.Image) *verdict.Verdict { return a() }

// TestGateNeedsAProof: a judge who counts an image as verified and has no proof
// accepts it nowhere: not alone, not beside one who has, and not as one of
// several. The twin has a proof.
func TestGateNeedsAProof(t *testing.T) {
	w := theWorld(t)
	whole := w.attacked(t).gate(t)
	accepted(t, whole.Err())
	counted := func(proofs ...verdict.Proof) answering {
		return func() *verdict.Verdict {
			v := verdict.New("image lantern", time.Now())
			v.Counts, v.Proofs = verdict.Counts{Verified: 1, Required: 1}, proofs
			return v
		}
	}
	proven, bare := counted(whole.Proofs[0]), counted()
	image := gate.Image{Name: "lantern"}
	for name, decide := range map[string]func(with answering) *verdict.Verdict{
		"a judge alone":          func(with answering) *verdict.Verdict { return gate.AllJudges{with}.Image(t.Context(), image) },
		"the first of two":       func(with answering) *verdict.Verdict { return gate.AllJudges{with, proven}.Image(t.Context(), image) },
		"the second of two":      func(with answering) *verdict.Verdict { return gate.AllJudges{proven, with}.Image(t.Context(), image) },
		"the last of several":    func(with answering) *verdict.Verdict { return gate.Several("3 images", proven(), proven(), with()) },
		"the release, unchanged": func(with answering) *verdict.Verdict { return gate.Several("both", whole, with()) },
	} {
		t.Run(name, func(t *testing.T) {
			accepted(t, decide(proven).Err())
			refused(t, decide(bare).Err(), verdict.NoProof)
		})
	}
	stripped := *whole
	stripped.Proofs = nil
	if stripped.Outcome() == verdict.Accepted {
		t.Errorf("without its proofs the release is %s", stripped.Headline())
	}
}

// weaker are the places of the product that let a verdict accept without a
// proof, each for a question that no signature answers or by the policy's word.
var weaker = map[string][]string{
	"verdict.NewCheck(": {
		"pkg/pipeline/doctor/doctor.go", "pkg/serve/check.go", "pkg/pipeline/promote/merge.go", "pkg/sbom/judge.go", "pkg/sbom/validate.go",
		"pkg/govern/signoff/check.go", "pkg/govern/feature/config/preflight.go", "pkg/produce/lock/update.go", "pkg/gate/mirror/mirror.go",
		"pkg/pipeline/watch/watch.go", "pkg/pipeline/rebuild_twice.go", "pkg/pipeline/rebuild_one.go", // the last with --build-info alone
		"pkg/report/inspect/vex.go", "pkg/sbom/planned/planned.go",
	},
	"verdict.InsecureUnsigned":        {"pkg/gate/bymanifest.go"},     // behind the key of that name
	".SettleInsecureUnsigned(":        {"pkg/judge/policy/decide.go"}, // the same of a policy
	"verdict.Checked":                 {"pkg/gate/revision.go"},       // the history of a clone, by the ids of its commits
	".Basis =":                        {"pkg/gate/bymanifest.go", "pkg/gate/revision.go", "pkg/value/verdict/basis.go", "pkg/value/verdict/verdict.go"},
	"yaml:\"insecureAcceptUnsigned\"": {"pkg/judge/policy/file.go", "pkg/release/promoterfile/policy.go"},
}

// TestWhoMayAcceptWithoutAProof lists the places in the sources that make a
// verdict that needs no proof. No flag, no profile and no default is among them.
func TestWhoMayAcceptWithoutAProof(t *testing.T) {
	found := map[string][]string{}
	read := 0
	for _, root := range []string{"pkg", "cmd", "attestations"} {
		err := filepath.WalkDir(filepath.Join("..", "..", root), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			raw, err := os.ReadFile(path)
			read++
			for words := range weaker {
				if strings.Contains(string(raw), words) {
					found[words] = append(found[words], strings.TrimPrefix(filepath.ToSlash(path), "../../"))
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for words, where := range weaker {
		slices.Sort(found[words])
		slices.Sort(where)
		if !slices.Equal(found[words], where) {
			t.Errorf("%s stands in %q, want %q", words, found[words], where)
		}
	}
	if read < 300 {
		t.Errorf("%d files were read", read)
	}
	for _, name := range []string{profile.Kubernetes, profile.KubernetesSealed} {
		if p := must[profile.Profile](t)(profile.Load(name, profile.Reader{Trust: func() (trust.Root, error) { return trust.Embedded(), nil }})); p.Policy.InsecureUnsigned() {
			t.Errorf("the profile %s accepts what nothing signed speaks for", name)
		}
	}
}
