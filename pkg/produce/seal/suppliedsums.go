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

// maxSums limits the size of a checksum file: a million lines.
const maxSums = 256 << 20

// checksums compares the supplied checksum files with the imported bytes:
// users who check with them must get the same answer.
func (l carriedFiles) checksums(ctx context.Context) (findings []verdict.Finding, err error) {
	for _, a := range l.Plan.Artifacts {
		of, single := sidecarOf(a.Name)
		if !single && a.Class != plan.Sums && (a.Class != plan.Other || !isSums(a.Name)) {
			continue
		}
		if _, theirs := l.nameInPlace[a.Name]; !theirs || a.IsImage() {
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
			l.Report(ctx, "%s: lines without a sha256 or sha512 of a file, not compared: %d", a.Name, foreign)
		}
	}
	return findings, nil
}

// sidecarOf is the file to which a sidecar belongs.
func sidecarOf(name string) (of string, is bool) {
	for _, suffix := range []string{".sha256", ".sha512", ".sha256sum", ".sha512sum"} {
		if of, is = strings.CutSuffix(name, suffix); is {
			return of, true
		}
	}
	return "", false
}

// isSums knows the usual names of checksum files of many files.
func isSums(name string) bool {
	base := strings.ToLower(path.Base(name))
	return slices.ContainsFunc([]string{"sha256sums", "sha512sums", "sha256sums.txt", "sha512sums.txt", "checksums.txt"}, func(end string) bool {
		before, is := strings.CutSuffix(base, end)
		return is && (before == "" || strings.ContainsAny(before[len(before)-1:], "_-."))
	})
}

// splitSum splits a line of sha256sum; a sidecar may omit the name.
func splitSum(line string) (sum, name string) {
	sum, name, _ = strings.Cut(strings.TrimRight(line, "\r\n"), " ")
	return strings.ToLower(sum), strings.TrimPrefix(strings.TrimLeft(name, " *"), "./")
}

// compare compares one line of a checksum file with the file that it names.
// Without a code they agree; known means that something was compared.
func (l carriedFiles) compare(sums, name, sum string) (f verdict.Finding, known bool) {
	if _, err := hex.DecodeString(sum); name == "" || err != nil || len(sum) != 64 && len(sum) != 128 {
		return f, false
	}
	means := l.artifactOf(sums, name)
	if means == "" {
		if l.isOutside(sums, name) {
			return f, false
		}
		return verdict.Find(verdict.SealMissing, name, "%s lists this file, but the release does not have it", sums), true
	}
	set := l.imported[means]
	want := set.SHA256
	if len(sum) == 128 {
		want = set.SHA512
	}
	if got, err := digest.ParseHex(want.Algorithm(), sum); err != nil || !got.Equal(want) {
		return verdict.Find(verdict.Conflict, means, "%s has a different digest for this file", sums).Differ(want.Hex(), sum), true
	}
	return f, true
}

// artifactOf is the artifact that a line names: beside the checksum file, in the
// place or in the release. Older tools write absolute paths of their machine:
// then the longest matching end counts.
func (l carriedFiles) artifactOf(sums, name string) string {
	beside := path.Join(path.Dir(l.nameInPlace[sums]), name)
	longest := ""
	for of, from := range l.nameInPlace {
		switch {
		case from == beside || of == path.Join(path.Dir(sums), name):
			return of
		case strings.HasPrefix(name, "/") && len(of) > len(longest) && strings.HasSuffix(name, "/"+of):
			longest = of
		}
	}
	return longest
}

// isOutside reports whether a line names a file that is not part of the
// release.
func (l carriedFiles) isOutside(sums, name string) bool {
	return slices.Contains(l.Plan.Outside, path.Join(path.Dir(l.nameInPlace[sums]), name)) || slices.Contains(l.Plan.Outside, name)
}
