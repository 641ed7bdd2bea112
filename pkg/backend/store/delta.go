package store

import (
	"context"
	"errors"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// deltaName is the file that makes a kit a delta. Its words are the name of the older
// kit, which lies beside it; the digest of the manifest there; and the names of the files
// that are read there. It is no object of the place. Of maxChain, each may be of the next.
const deltaName, maxChain = "delta", 8

// add adds to the index what a delta has in the older kit. Neither is trusted: who
// judges the place judges what both have together.
func (t *tape) add(ctx context.Context, archive io.ReaderAt, index map[string]span) error {
	at := index[deltaName]
	delete(index, deltaName)
	raw, err := io.ReadAll(io.NewSectionReader(archive, at.offset, min(at.size, MaxObjects<<6)))
	words := strings.Fields(string(raw))
	if err != nil || len(words) < 2 || CheckName(words[0]) != nil || strings.Contains(words[0], "/") || !strings.HasSuffix(words[0], kitSuffix) {
		return verdict.Refuse(verdict.ArchiveParse, deltaName, "want the name of the older kit, the digest of its manifest, and names of its files")
	}
	path, subject := filepath.Join(filepath.Dir(t.path), words[0]), filepath.Base(t.path)
	if _, _, is := splitTape(path); !is || t.chain == maxChain {
		return verdict.Refuse("KIT_BASE", subject, "it is a delta of %s, which is not beside it; or more than %d deltas follow each other", words[0], maxChain)
	}
	if t.older, err = openTape(path); err != nil {
		return err
	}
	t.older.chain = t.chain + 1
	manifest, err := Read(ctx, t.older, "files/"+releasemanifest.Name, 64<<20)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if got := digest.Of(digest.SHA256, manifest).String(); got != words[1] {
		return &verdict.Error{Finding: verdict.Find("KIT_BASE", subject, "it is a delta of %s, and the kit beside it with that name has another manifest", words[0]).Differ(words[1], got)}
	}
	for _, name := range words[2:] {
		had, is := t.older.index[name]
		switch _, twice := index[name]; {
		case !is:
			return verdict.Refuse("KIT_BASE", subject, "it is a delta of %s, which lacks %s", words[0], name)
		case twice:
			return verdict.Refuse(verdict.ArchiveTwice, name, "the delta has it twice")
		}
		index[name] = span{size: had.size, older: true}
	}
	return CheckNames(slices.Collect(maps.Keys(index)))
}
