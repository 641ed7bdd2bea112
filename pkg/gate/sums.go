package gate

import (
	"context"
	"strings"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/release"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// checkSums holds the checksum files against the manifest: both are signed,
// and a user of sha256sum would be told something else than a user of ours.
func (d *decision) checkSums(ctx context.Context) {
	for _, a := range d.manifest.Files() {
		if d.bad[a.Name] || !d.covers(a) {
			continue
		}
		switch a.Class {
		case plan.Checksum:
			if err := d.checkSidecar(ctx, a); err != nil {
				d.fail(a.Name, err)
			}
		case plan.Sums:
			if err := d.checkSumsFile(ctx, a); err != nil {
				d.fail(a.Name, err)
			}
		}
	}
}

// checkSidecar compares a sidecar with what it must say. There are few ways to
// say it, so one that is right need not be read.
func (d *decision) checkSidecar(ctx context.Context, a release.Artifact) error {
	of, want := d.summed(a.Name)
	for _, text := range []string{"%", "%\n", "%  #\n", "% *#\n"} {
		text = strings.NewReplacer("%", want, "#", of).Replace(text)
		if want != "" && digest.Of(digest.SHA256, []byte(text)).Equal(a.Digests.SHA256) {
			return nil
		}
	}
	raw, err := d.listed(ctx, a.Name)
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
func (d *decision) summed(sidecar string) (of, want string) {
	for _, algorithm := range []string{"sha256", "sha512"} {
		if name, found := strings.CutSuffix(sidecar, "."+algorithm); found {
			a, _ := d.manifest.Find(name)
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
func (d *decision) checkSumsFile(ctx context.Context, a release.Artifact) error {
	raw, err := d.listed(ctx, a.Name)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(raw)) {
		got, name, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
		name = strings.TrimPrefix(strings.TrimLeft(name, " *"), "./")
		of, listed := d.manifest.Find(name)
		if d.bad[name] {
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
