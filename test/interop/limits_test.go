package interop

import (
	"regexp"
	"slices"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/test/lab"
)

// limit is an answer of cosign that one would not expect, and why it is so.
type limit struct {
	what   string
	why    string
	peer   cosign
	args   []string
	says   *regexp.Regexp // what it says when it refuses, or accepts
	accept bool
}

// limits asserts what cosign cannot do, so that it is noticed when it can.
func limits(t *testing.T, w *world) {
	answers := table{head: []string{"what", "peer", "answer", "why"}}
	t.Run("cells", func(t *testing.T) {
		for _, l := range w.limits() {
			row := answers.row(l.what, l.peer.title(), "refused", l.why)
			if l.accept {
				row[2] = "accepted"
			}
			t.Run(l.what+", "+l.peer.title(), func(t *testing.T) {
				t.Parallel()
				said, err := l.peer.run(t.Context(), l.args...)
				if err != nil {
					said = err.Error()
				}
				if (err == nil) != l.accept || !l.says.MatchString(said) {
					row[2] = "CHANGED"
					t.Errorf("accepted: %t, want %t and %q:\n%s", err == nil, l.accept, l.says, said)
				}
			})
		}
	})
	onPage(t, "limits", answers)
}

func (w *world) limits() []limit {
	tag := w.images.released.reference("tag")
	signature := ask{verb: "verify", role: lab.RoleRelease, target: tag}
	byBuilder := ask{verb: "verify", role: lab.RoleBuilder, target: tag}
	short := ask{verb: "verify-attestation", role: lab.RoleRelease, kind: "spdxjson", target: tag}

	all := []limit{{
		what: "binary, no --use-signed-timestamps", peer: w.cosign2, args: w.untimed(w.cosign2), says: regexp.MustCompile(`threshold not met for verified log entry integrated timestamps`),
		why: "Rekor v2 promises no time: cosign 2 must be told to ask the timestamp",
	}, {
		what: "binary, no --use-signed-timestamps", peer: w.cosign3, args: w.untimed(w.cosign3), accept: true, says: regexp.MustCompile(`Verified OK`),
		why: "cosign 3 takes the timestamp that is there",
	}, {
		what: "image, --new-bundle-format=false", peer: w.cosign3, args: append(w.cosign3.question(signature), "--new-bundle-format=false"), says: nothingThere,
		why: "we attach no legacy signature, only bundles",
	}}
	for _, c := range []cosign{w.cosign2, w.cosign3} {
		all = append(all, limit{
			what: "image, SBOM, --type spdxjson", peer: c, args: c.question(short), accept: true, says: regexp.MustCompile(`"predicateType":"https://spdx.dev/Document"|` + "payload"),
			why: "cosign's short name is the predicate type that we write",
		}, limit{
			what: "image, verify as the builder", peer: c, args: c.question(byBuilder), accept: true,
			says: regexp.MustCompile(`"type":"` + regexp.QuoteMeta(provenance.PredicateType) + `"`),
			why:  "cosign takes any statement about an image for its signature",
		})
	}
	return all
}

// untimed asks for the binary's signature without asking for a timestamp.
func (w *world) untimed(c cosign) []string {
	args := c.question(w.blob("binary", binary, otherBinary).ask)
	return slices.DeleteFunc(args, func(arg string) bool { return arg == "--use-signed-timestamps" })
}
