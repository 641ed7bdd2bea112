package gate

import (
	"context"
	"errors"
	"strings"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/expected"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/spdx"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// anchor reads the SBOM of the release and proves its signature, before
// anything else is read. It is the one signed document that says which bytes
// belong under which name to which version: without it every file and image that
// the project ever signed would do for every other, and nothing is decided. It
// reports whether there is something to hold the release against.
func (u *unsealed) anchor(ctx context.Context) bool {
	const name = expected.ReleaseSBOM
	raw, err := store.Read(ctx, u.Files, name, maxDocument)
	if errors.Is(err, store.ErrNotFound) {
		err = verdict.Refuse(verdict.Missing, name, "it is not in the place, and no other signed document says which files and images belong to %s", u.Version).
			Advise("check that there is such a version; then take the release with its SBOM from where the project publishes it")
	}
	if err != nil {
		u.v.Counts.Required++
		u.fail(name, about(name, err))
		return false
	}
	u.digests[name] = digest.SetOf(raw)
	u.note(name, u.digests[name].SHA256)
	answer := u.judgeFile(ctx, name)
	if proves(answer) {
		u.signed, err = u.readSBOM(name, raw)
	}
	if err != nil {
		u.fail(name, about(name, err))
	}
	// Where the files are asked about, it is one of them and counted there.
	if u.bad[name] || !proves(answer) || u.partly() {
		u.judged(expected.KindOf(name).Class, name, answer)
	}
	return proves(answer) && !u.bad[name]
}

// partly reports whether the files of the place are not asked about.
func (u *unsealed) partly() bool {
	s := u.Options.Scope
	return s.Only == policy.Images || len(s.Given) > 0
}

func (u *unsealed) readSBOM(name string, raw []byte) (expected.Witness, error) {
	doc, err := spdx.ParseTagValue(raw)
	if err != nil {
		return expected.Witness{}, err
	}
	w, err := expected.ReadSBOM(name, doc, u.Version)
	if err == nil {
		_, err = expected.Of(w)
	}
	return w, err
}

// bindFile holds a file whose signature holds against the SBOM: the signature
// is of its bytes under any name and of any version.
func (u *unsealed) bindFile(ctx context.Context, name string) error {
	bytes := u.digests[name]
	gives, same := u.signed.Gives(name, bytes)
	switch {
	case gives && same, name == expected.ReleaseSBOM: // which says itself of which version it is
		return nil
	case gives:
		return &verdict.Error{Finding: verdict.Find(verdict.Tampered, name, "the bytes are not those that %s gives", u.signed.Name()).
			Differ(u.signed.Bytes(name).SHA256.String(), bytes.SHA256.String())}
	case name == expected.SourceSBOM:
		return u.bindSource(ctx)
	}
	return u.unbound(name)
}

func (u *unsealed) unbound(name string) error {
	return verdict.Refuse(verdict.VersionUnbound, name, "it is signed, but %s does not describe it: nothing that is signed says that it belongs to %s", expected.ReleaseSBOM, u.Version)
}

// checkTags holds the files that say the tag of an image against what is signed:
// they are unsigned, and there is one thing that each can say.
func (u *unsealed) checkTags() {
	for _, name := range u.set.Names() {
		sum := u.digests[name].SHA256
		switch tag := u.Version.String(); {
		case !strings.HasSuffix(name, expected.TagSuffix) || u.bad[name] || sum.IsZero():
		case !u.signed.Tagged(name):
			u.fail(name, verdict.Refuse(verdict.VersionUnbound, name, "%s describes no image of this name", u.signed.Name()))
		case !sum.Equal(digest.Of(digest.SHA256, []byte(tag))) && !sum.Equal(digest.Of(digest.SHA256, []byte(tag+"\n"))):
			u.fail(name, &verdict.Error{Finding: verdict.Find(verdict.Tampered, name, "it does not say %s", tag).
				Differ(digest.Of(digest.SHA256, []byte(tag)).String(), sum.String())})
		}
	}
}

// bindSource reads of which version the SBOM of the source says that it is: the
// SBOM of the release refers to it by a digest that proves nothing.
func (u *unsealed) bindSource(ctx context.Context) error {
	raw, err := store.Read(ctx, u.Files, expected.SourceSBOM, maxDocument)
	if err != nil {
		return err
	}
	if got := digest.Of(digest.SHA256, raw); !got.Equal(u.digests[expected.SourceSBOM].SHA256) {
		return &verdict.Error{Finding: verdict.Find(verdict.Tampered, expected.SourceSBOM, "it changed while it was read").
			Differ(u.digests[expected.SourceSBOM].SHA256.String(), got.String())}
	}
	var said []string
	for line := range strings.Lines(string(raw)) {
		if value, is := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "DocumentNamespace: "); is {
			said = append(said, value)
		}
	}
	want := expected.SourceNamespace(u.Version)
	if len(said) == 1 && said[0] == want {
		return nil
	}
	return &verdict.Error{Finding: verdict.Find(verdict.Version, expected.SourceSBOM, "it is the SBOM of another source").Differ(want, clip(strings.Join(said, ", ")))}
}
