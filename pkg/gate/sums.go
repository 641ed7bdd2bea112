package gate

import (
	"context"
	"strings"

	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// checkSums holds the checksum files against the manifest: both are signed,
// and a user of sha256sum would be told something else than a user of ours.
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

// checkSidecar compares a sidecar with what it must say. There are few ways to
// say it, so one that is right need not be read.
func (g gathered) checkSidecar(ctx context.Context, a manifest.Artifact) error {
	of, want := g.release.manifest.summed(a.Name)
	for _, text := range []string{"%", "%\n", "%  #\n", "% *#\n"} {
		text = strings.NewReplacer("%", want, "#", of).Replace(text)
		if want != "" && digest.Of(digest.SHA256, []byte(text)).Equal(a.Digests.SHA256) {
			return nil
		}
	}
	raw, err := g.release.listed(ctx, a.Name)
	if err != nil {
		return err
	}
	got, _, _ := strings.Cut(strings.TrimSpace(string(raw)), " ")
	if want == "" || got != want {
		return &verdict.Error{Finding: verdict.Find(verdict.Conflict, a.Name, "checksum file and manifest disagree about %.200q", of).
			Differ(want, clip(got))}
	}
	return nil
}

// summed is the file that a sidecar is about, and its digest in hexadecimal.
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
	raw, err := g.release.listed(ctx, a.Name)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(raw)) {
		got, name, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
		name = strings.TrimPrefix(strings.TrimLeft(name, " *"), "./")
		of, listed := g.release.manifest.Find(name)
		if !g.holds(name) {
			continue // what is wrong with it was said
		}
		if want := hexOf(of.Digests, a.Name == plan.SHA512Sums); !listed || want == "" || got != want {
			return &verdict.Error{Finding: verdict.Find(verdict.Conflict, a.Name, "checksum file and manifest disagree about %.200q", name).
				Differ(want, clip(got))}
		}
	}
	return nil
}

// clip bounds foreign text.
func clip(s string) string { return s[:min(len(s), 200)] }
