package gate

import (
	"context"
	"strings"

	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// checkSums compares the checksum files with the manifest: users of sha256sum
// must get the same answer as users of this program.
func checkSums(ctx context.Context, g gathered) (f facts) {
	for _, a := range g.release.manifest.Files() {
		if !g.holds(a.Name) || !g.release.covers(a) {
			continue
		}
		switch a.Class {
		case plan.Checksum:
			f.fail(a.Name, g.checkSidecar(ctx, a))
		case plan.Sums:
			f.fail(a.Name, g.checkSumsFile(ctx, a))
		}
	}
	return f
}

// checkSidecar compares a sidecar with its required contents. It has few
// possible forms, so usually its digest is enough.
func (g gathered) checkSidecar(ctx context.Context, a manifest.Artifact) error {
	of, want := g.release.manifest.summed(a.Name)
	for _, text := range []string{"%", "%\n", "%  #\n", "% *#\n"} {
		text = strings.NewReplacer("%", want, "#", of).Replace(text)
		if want != "" && digest.Of(digest.SHA256, []byte(text)).Equal(a.Digests.SHA256) {
			return nil
		}
	}
	raw, err := g.release.readListed(ctx, a.Name)
	if err != nil {
		return err
	}
	got, _, _ := strings.Cut(strings.TrimSpace(string(raw)), " ")
	if want == "" || got != want {
		return &verdict.Error{Finding: verdict.Find(verdict.Conflict, a.Name, "checksum file and manifest have different digests for %.200q", of).
			Differ(want, clip(got))}
	}
	return nil
}

// summed returns the file that a sidecar is about, and its digest in
// hexadecimal.
func (m signedManifest) summed(sidecar string) (of, want string) {
	for _, algorithm := range []string{"sha256", "sha512"} {
		if name, found := strings.CutSuffix(sidecar, "."+algorithm); found {
			a, _ := m.Find(name)
			return name, hexOf(a.Digests, algorithm == "sha512")
		}
	}
	return sidecar, ""
}

func hexOf(set digest.Set, long bool) string {
	sum := set.SHA256
	if long {
		sum = set.SHA512
	}
	if sum.IsZero() {
		return ""
	}
	return sum.Hex()
}

// checkSumsFile compares every line of SHA256SUMS or SHA512SUMS.
func (g gathered) checkSumsFile(ctx context.Context, a manifest.Artifact) error {
	raw, err := g.release.readListed(ctx, a.Name)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(raw)) {
		got, name, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
		name = strings.TrimPrefix(strings.TrimLeft(name, " *"), "./")
		of, listed := g.release.manifest.Find(name)
		if !g.holds(name) {
			continue // reported by another check
		}
		if want := hexOf(of.Digests, a.Name == plan.SHA512Sums); !listed || want == "" || got != want {
			return &verdict.Error{Finding: verdict.Find(verdict.Conflict, a.Name, "checksum file and manifest have different digests for %.200q", name).
				Differ(want, clip(got))}
		}
	}
	return nil
}

// clip shortens foreign text.
func clip(s string) string { return s[:min(len(s), 200)] }
