package interop

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"text/tabwriter"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	sbomlist "github.com/waybill-release/waybill/attestations/sbom-list/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/test/lab"
)

// question is what is asked of every peer, and the things that its twins are
// asked about.
type question struct {
	ask
	other string // another file that is really there; unset for images
	part  string // of an image; unset for files
}

// questions are everything that others can verify about a release.
func (w *world) questions() []question {
	qs := []question{
		w.blob("binary", binary, otherBinary),
		w.blob("archive", archive, binary),
		w.blob("sums", sums, binary),
		w.attested("binary: provenance", lab.RoleBuilder, provenance.PredicateType, compiled, binary),
		w.attested("archive: provenance", lab.RoleBuilder, provenance.PredicateType, packed, archive),
		w.attested("binary: manifest", lab.RoleRelease, releasemanifest.PredicateType, manifest, binary),
		w.attested("archive: manifest", lab.RoleRelease, releasemanifest.PredicateType, manifest, archive),
		w.attested("sums: manifest", lab.RoleRelease, releasemanifest.PredicateType, manifest, sums),
		w.attested("SBOM of a binary: list of SBOMs", lab.RoleRelease, sbomlist.PredicateType, sbomlist.Name, sbom),
	}
	for _, part := range []string{"tag", "index", "linux/amd64", "linux/arm64"} {
		qs = append(qs,
			w.image(part+": signature", part, ask{verb: "verify", role: lab.RoleRelease, kind: intoto.CosignSignature}),
			w.image(part+": provenance", part, ask{verb: "verify-attestation", role: lab.RoleBuilder, kind: provenance.PredicateType}),
			w.image(part+": SBOM", part, ask{verb: "verify-attestation", role: lab.RoleRelease, kind: intoto.SPDXDocument}))
	}
	return qs
}

func (w *world) blob(what, file, other string) question {
	return question{other: w.file(other), ask: ask{
		what: what + ": signature", verb: "verify-blob", role: lab.RoleRelease, bundle: w.file(file + bundleSuffix), target: w.file(file),
	}}
}

// attested asks about a file of which a statement in bundle must speak. The
// other binary is in the manifest as well, so the other file is its flipped
// twin: a file that nobody speaks of.
func (w *world) attested(what, role, kind, bundle, file string) question {
	return question{other: w.file(otherBinary + flippedSuffix), ask: ask{
		what: what, verb: "verify-blob-attestation", role: role, kind: kind, bundle: w.file(bundle), target: w.file(file),
	}}
}

func (w *world) image(what, part string, a ask) question {
	a.what, a.target = "image "+what, w.images.released.reference(part)
	return question{part: part, ask: a}
}

// Why the peers refuse.
var (
	wrongIdentity  = regexp.MustCompile(`no matching CertificateIdentity found`)
	wrongSignature = regexp.MustCompile(`invalid signature when validating`)
	wrongDigest    = regexp.MustCompile(`artifact digests? do(es)? not match`)
	notLogged      = regexp.MustCompile(`transparency log signature does not match|verifying inclusion: calculated root`)
	nothingThere   = regexp.MustCompile(`no signatures found|no valid bundles exist|no matching attestations|none of the attestations matched`)
)

// twin is a question with one fact changed, and why it must be refused.
type twin struct {
	change string
	ask    ask
	says   *regexp.Regexp // nil: accepted, nothing was changed
}

// twins of a question; the first is the question itself.
func (w *world) twins(q question) []twin {
	with := func(change string, says *regexp.Regexp, edit func(*ask)) twin {
		a := q.ask
		edit(&a)
		return twin{change: change, ask: a, says: says}
	}
	twins := []twin{
		{change: "as released", ask: q.ask},
		with("another identity", wrongIdentity, func(a *ask) { a.role = lab.RolePolicy }),
	}
	if q.part != "" {
		return append(twins,
			with("another image", wrongDigest, func(a *ask) { a.target = w.images.stranger.reference(q.part) }),
			with("flipped signature", notLogged, func(a *ask) { a.target = w.images.flipped.reference(q.part) }),
			with("no evidence", nothingThere, func(a *ask) { a.target = w.images.bare.reference(q.part) }))
	}
	other := wrongSignature
	if q.kind != "" {
		other = wrongDigest
	}
	return append(twins,
		with("another file", other, func(a *ask) { a.target = q.other }),
		with("flipped byte", other, func(a *ask) { a.target += flippedSuffix }),
		with("flipped signature", notLogged, func(a *ask) { a.bundle += flippedSuffix }))
}

// theyVerifyOurs asks every peer every question and its twins.
func theyVerifyOurs(t *testing.T, w *world) {
	answers := table{head: []string{"what", "twin", w.cosign2.title(), w.cosign3.title(), w.library.title()}}
	t.Run("cells", func(t *testing.T) {
		for _, q := range w.questions() {
			for _, tw := range w.twins(q) {
				row := answers.row(q.what, tw.change)
				t.Run(q.what+", "+tw.change, func(t *testing.T) {
					t.Parallel()
					for i, p := range []peer{w.cosign2, w.cosign3, w.library} {
						row[i+2] = verdictOf(t, p, tw)
					}
				})
			}
		}
	})
	onPage(t, "they verify ours", answers)
}

// verdictOf is the cell of the table: how a peer answered, and whether it had
// to answer so.
func verdictOf(t *testing.T, p peer, tw twin) string {
	err := p.verify(t.Context(), tw.ask)
	switch {
	case tw.says == nil && err == nil:
		return "accepted"
	case tw.says == nil:
		t.Errorf("%s refused: %v", p.title(), err)
		return "REFUSED"
	case err == nil:
		t.Errorf("%s accepted, want a refusal that says %q", p.title(), tw.says)
		return "ACCEPTED"
	case !tw.says.MatchString(err.Error()):
		t.Errorf("%s refused for another reason than %q: %v", p.title(), tw.says, err)
		return "WRONG REASON"
	}
	return "refused"
}

// table is what the test prints at the end. Each row is written by one test.
type table struct {
	head []string
	rows [][]string
}

// row adds a row that starts with these cells and returns it to be filled.
func (t *table) row(cells ...string) []string {
	row := make([]string, len(t.head))
	copy(row, cells)
	t.rows = append(t.rows, row)
	return row
}

func (t table) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{t.head}, t.rows...) {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // to memory
	return b.String()
}
