package seal

import (
	"context"
	"encoding/hex"
	"path"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxSums bounds a checksum file: a million lines.
const maxSums = 256 << 20

// checksums holds the checksum files that came along against the bytes that
// were taken over: whoever checks with them must not be told another story.
func (l luggage) checksums(ctx context.Context) (findings []verdict.Finding, err error) {
	for _, a := range l.Plan.Artifacts {
		of, single := besides(a.Name)
		if !single && a.Class != plan.Sums && (a.Class != plan.Other || !isSums(a.Name)) {
			continue
		}
		if _, theirs := l.from[a.Name]; !theirs || a.IsImage() {
			continue
		}
		raw, err := store.Read(ctx, l.Workspace.Files(), a.Name, maxSums)
		if err != nil {
			return nil, err
		}
		foreign := 0
		for line := range strings.Lines(string(raw)) {
			sum, name := splitSum(line)
			if single && name == "" {
				name = path.Base(of)
			}
			switch f, known := l.compare(a.Name, name, sum); {
			case !known:
				foreign++
			case f.Code != "":
				findings = append(findings, f)
			}
		}
		if foreign > 0 {
			l.Report(ctx, "%s: %d lines were compared with nothing: no sha256 or sha512 of a file", a.Name, foreign)
		}
	}
	return findings, nil
}

// besides is the file that a sidecar is named after.
func besides(name string) (of string, is bool) {
	for _, suffix := range []string{".sha256", ".sha512", ".sha256sum", ".sha512sum"} {
		if of, is = strings.CutSuffix(name, suffix); is {
			return of, true
		}
	}
	return "", false
}

// isSums knows the usual names of checksum files over many files.
func isSums(name string) bool {
	base := strings.ToLower(path.Base(name))
	return slices.ContainsFunc([]string{"sha256sums", "sha512sums", "sha256sums.txt", "sha512sums.txt", "checksums.txt"}, func(end string) bool {
		before, is := strings.CutSuffix(base, end)
		return is && (before == "" || strings.ContainsAny(before[len(before)-1:], "_-."))
	})
}

// splitSum splits a line as sha256sum writes it; a sidecar may leave the name
// out.
func splitSum(line string) (sum, name string) {
	sum, name, _ = strings.Cut(strings.TrimRight(line, "\r\n"), " ")
	return strings.ToLower(sum), strings.TrimPrefix(strings.TrimLeft(name, " *"), "./")
}

// compare holds one line of a checksum file against the file that it means.
// Without a code they agree; known says that something was compared.
func (l luggage) compare(sums, name, sum string) (f verdict.Finding, known bool) {
	if _, err := hex.DecodeString(sum); name == "" || err != nil || len(sum) != 64 && len(sum) != 128 {
		return f, false
	}
	means := l.meant(sums, name)
	if means == "" {
		if l.isOutside(sums, name) {
			return f, false
		}
		return verdict.Find(verdict.SealMissing, name, "%s lists it, and the release has no such file", sums), true
	}
	set := l.taken[means]
	want := set.SHA256
	if len(sum) == 128 {
		want = set.SHA512
	}
	if got, err := digest.ParseHex(want.Algorithm(), sum); err != nil || !got.Equal(want) {
		return verdict.Find(verdict.Conflict, means, "%s gives it another digest than its bytes have", sums).Differ(want.Hex(), sum), true
	}
	return f, true
}

// meant is the artifact that a line means: beside the checksum file, in the
// place or in the release. Older tools write the path of the machine that they
// ran on: then the longest name counts with which it ends.
func (l luggage) meant(sums, name string) string {
	beside := path.Join(path.Dir(l.from[sums]), name)
	longest := ""
	for of, from := range l.from {
		switch {
		case from == beside || of == path.Join(path.Dir(sums), name):
			return of
		case strings.HasPrefix(name, "/") && len(of) > len(longest) && strings.HasSuffix(name, "/"+of):
			longest = of
		}
	}
	return longest
}

// isOutside reports whether a line means a file that stays behind.
func (l luggage) isOutside(sums, name string) bool {
	return slices.Contains(l.Plan.Outside, path.Join(path.Dir(l.from[sums]), name)) || slices.Contains(l.Plan.Outside, name)
}
