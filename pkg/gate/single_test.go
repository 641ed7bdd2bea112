package gate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// What can be accepted is in test/stories, where there is a laboratory that
// signs. Here stands what is refused before any signature is imageAnswer at.

func signer(t *testing.T) gate.Signer {
	t.Helper()
	v, err := verify.New(trust.Embedded())
	if err != nil {
		t.Fatal(err)
	}
	who, err := identity.Exact(identity.Identity{Issuer: "https://accounts.example.test", Subject: "release@example.test", Type: identity.Email})
	if err != nil {
		t.Fatal(err)
	}
	return gate.SignedBy(v, who)
}

func write(t *testing.T, dir, name, body string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(body), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// plain is a bundle with a signature of nothing in particular.
const plain = `{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{"publicKey":{"hint":"x"}},` +
	`"messageSignature":{"messageDigest":{"algorithm":"SHA2_256","digest":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="},"signature":"AAAA"}}`

// codes are the reasons of a verdict, each once.
func codes(v *verdict.Verdict) []verdict.Code {
	var list []verdict.Code
	for _, f := range v.Findings {
		if !slices.Contains(list, f.Code) {
			list = append(list, f.Code)
		}
	}
	return list
}

func TestFilesRefuses(t *testing.T) {
	dir := t.TempDir()
	bare := write(t, dir, "bare", "nobody signed this")
	file := write(t, dir, "file", "the file")
	write(t, dir, "file"+gate.BundleSuffix, plain)
	torn := write(t, dir, "torn.json", plain[:40])
	huge := write(t, dir, "huge.json", "")
	if err := os.Truncate(huge, verify.MaxBundle+1); err != nil {
		t.Fatal(err)
	}
	who, some := signer(t), digest.Of(digest.SHA256, []byte("the file"))
	rows := []struct {
		name  string
		files []gate.File
		ask   gate.Ask
		code  verdict.Code
	}{
		{"no file", nil, gate.Ask{Signer: who}, verdict.Usage},
		{"nobody", []gate.File{{Path: file}}, gate.Ask{}, verdict.Usage},
		{"no identity", []gate.File{{Path: file}}, gate.Ask{Signer: gate.SignedBy(&verify.Verifier{})}, verdict.Usage},
		{"neither file nor digest", []gate.File{{Bundle: torn}}, gate.Ask{Signer: who}, verdict.Usage},
		{"file and digest", []gate.File{{Path: file, Digest: some}}, gate.Ask{Signer: who}, verdict.Usage},
		{"a digest without a bundle", []gate.File{{Digest: some}}, gate.Ask{Signer: who}, verdict.Usage},
		{"a subject of bytes", []gate.File{{Path: file}}, gate.Ask{Signer: who, Subject: "file"}, verdict.Usage},
		{"a level of a signature", []gate.File{{Path: file}}, gate.Ask{Signer: who, Levels: gate.Levels{Require: []slsa.Demand{{Track: slsa.Build, Level: 1}}}}, verdict.Usage},
		{"no such file", []gate.File{{Path: filepath.Join(dir, "nowhere")}}, gate.Ask{Signer: who}, verdict.Usage},
		{"a directory", []gate.File{{Path: dir, Bundle: torn}}, gate.Ask{Signer: who}, verdict.FileType},
		{"no bundle", []gate.File{{Path: bare}}, gate.Ask{Signer: who}, verdict.EvidenceMissing},
		{"no such bundle", []gate.File{{Path: file, Bundle: filepath.Join(dir, "nowhere")}}, gate.Ask{Signer: who}, verdict.EvidenceMissing},
		{"a bundle that is a directory", []gate.File{{Path: file, Bundle: dir}}, gate.Ask{Signer: who}, verdict.PlaceDown},
		{"malformed", []gate.File{{Path: file, Bundle: torn}}, gate.Ask{Signer: who}, verdict.BundleParse},
		{"over the limit", []gate.File{{Path: file, Bundle: huge}}, gate.Ask{Signer: who}, verdict.Limit},
		{"a signature beside it", []gate.File{{Path: file}}, gate.Ask{Signer: who, Type: "https://example.test/p"}, verdict.PredicateNone},
		{"a signature that was chosen", []gate.File{{Path: file, Bundle: file + gate.BundleSuffix}}, gate.Ask{Signer: who, Type: "https://example.test/p"}, verdict.MaterialKind},
		{"other bytes", []gate.File{{Path: file}}, gate.Ask{Signer: who}, verdict.NotBound},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			v := gate.Files(t.Context(), gate.FileRequest{Files: row.files, Ask: row.ask, Now: time.Unix(0, 0)})
			if got := codes(v); !slices.Equal(got, []verdict.Code{row.code}) || v.Err() == nil || v.Counts.Verified > 0 || v.Counts.Required == 0 {
				t.Errorf("codes %v, want %s; %s", got, row.code, v.Counts)
			}
		})
	}
	both := gate.Files(t.Context(), gate.FileRequest{Files: []gate.File{{Path: bare}, {Path: file, Bundle: torn}}, Ask: gate.Ask{Signer: who}})
	if got := codes(both); !slices.Equal(got, []verdict.Code{verdict.EvidenceMissing, verdict.BundleParse}) || both.Counts.Required != 2 {
		t.Errorf("two files: codes %v, %s", got, both.Counts)
	}
}

// layout makes a registry of one index with two platforms.
func layout(t *testing.T) (*registry.Layout, registry.Descriptor) {
	t.Helper()
	return layoutOf(t, "amd64", "arm64")
}

// layoutOf is [layout] with what the two images say that they are for.
func layoutOf(t *testing.T, configured ...string) (*registry.Layout, registry.Descriptor) {
	t.Helper()
	l, err := registry.OpenLayout(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var entries []string
	for i, arch := range []string{"amd64", "arm64"} {
		config := fmt.Appendf(nil, `{"os":"linux","architecture":%q}`, configured[i])
		c := registry.Descriptor{Digest: digest.Of(digest.SHA256, config), Size: int64(len(config))}
		if err := l.PushBlob(t.Context(), "demo", c, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(config)), nil }); err != nil {
			t.Fatal(err)
		}
		child := push(t, l, registry.MediaTypeManifest, fmt.Sprintf(
			`{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":%q,"size":%d},"layers":[]}`,
			registry.MediaTypeManifest, c.Digest, c.Size))
		entries = append(entries, fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":%d,"platform":{"os":"linux","architecture":%q}}`,
			child.MediaType, child.Digest, child.Size, arch))
	}
	index := push(t, l, registry.MediaTypeIndex, fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"manifests":[%s]}`, registry.MediaTypeIndex, strings.Join(entries, ",")))
	if err := l.Tag(t.Context(), "demo", "v1", index); err != nil {
		t.Fatal(err)
	}
	return l, index
}

func push(t *testing.T, l *registry.Layout, mediaType, raw string) registry.Descriptor {
	t.Helper()
	d := registry.Descriptor{MediaType: mediaType, Digest: digest.Of(digest.SHA256, []byte(raw)), Size: int64(len(raw))}
	if err := l.PushManifest(t.Context(), "demo", d, []byte(raw)); err != nil {
		t.Fatal(err)
	}
	return d
}

// mute is a registry that answers all but one question.
type mute struct{ registry.Source }

func (mute) Referrers(context.Context, string, digest.Digest) ([]registry.Descriptor, error) {
	return nil, &verdict.UnavailableError{Place: "demo", Op: "listing referrers", Err: errors.New("no answer")}
}

func TestImagesRefuses(t *testing.T) {
	l, index := layout(t)
	attached, manifest, blobs := registry.BundleManifest(index, []byte(plain), intoto.CosignSignature)
	for _, b := range blobs {
		if err := l.PushBlob(t.Context(), "demo", b.Descriptor, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes)), nil }); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.PushManifest(t.Context(), "demo", attached, manifest); err != nil {
		t.Fatal(err)
	}
	image := func(change func(*gate.Image)) []gate.Image {
		i := gate.Image{Source: l, Name: "demo:v1", Repository: "demo", Tag: "v1"}
		change(&i)
		return []gate.Image{i}
	}
	same := func(*gate.Image) {}
	who := gate.Ask{Signer: signer(t)}
	lying, _ := layoutOf(t, "amd64", "amd64")
	rows := []struct {
		name     string
		images   []gate.Image
		ask      gate.Ask
		platform string
		codes    []verdict.Code
		required int
	}{
		{"no image", nil, who, "", []verdict.Code{verdict.Usage}, 1},
		{"nobody", image(same), gate.Ask{}, "", []verdict.Code{verdict.Usage}, 1},
		{"no registry", image(func(i *gate.Image) { i.Source = nil }), who, "", []verdict.Code{verdict.Usage}, 1},
		{"neither tag nor digest", image(func(i *gate.Image) { i.Tag = "" }), who, "", []verdict.Code{verdict.Usage}, 1},
		{"no such tag", image(func(i *gate.Image) { i.Tag = "v2" }), who, "", []verdict.Code{verdict.Missing}, 1},
		{"another digest", image(func(i *gate.Image) { i.Digest = attached.Digest }), who, "", []verdict.Code{verdict.TagMoved}, 1},
		{"a registry that is silent", image(func(i *gate.Image) { i.Source = mute{l} }), who, "", []verdict.Code{verdict.PlaceDown}, 3},
		{"every manifest", image(same), who, "", []verdict.Code{verdict.MaterialKind, verdict.EvidenceMissing}, 3},
		{"one platform", image(same), who, "linux/arm64", []verdict.Code{verdict.MaterialKind, verdict.EvidenceMissing}, 2},
		{"no such platform", image(same), who, "linux/riscv64", []verdict.Code{verdict.Platform}, 1},
		{"an image for another platform", image(func(i *gate.Image) { i.Source = lying }), who, "", []verdict.Code{verdict.EvidenceMissing, verdict.Platform}, 3},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			v := gate.Images(t.Context(), gate.ImageRequest{Images: row.images, Ask: row.ask, Platform: row.platform, Now: time.Unix(0, 0)})
			if got := codes(v); !slices.Equal(got, row.codes) || v.Err() == nil || v.Counts.Verified > 0 || v.Counts.Required != row.required {
				t.Errorf("codes %v, want %v; %s", got, row.codes, v.Counts)
			}
		})
	}
	for tag, want := range map[string]bool{"v1": true, "": false} { // a digest is not beside the evidence
		v := gate.Images(t.Context(), gate.ImageRequest{Images: image(func(i *gate.Image) { i.Tag, i.Digest = tag, index.Digest }), Ask: who, Now: time.Unix(0, 0)})
		const note = "demo:v1: name and tag are not verified, because the verified evidence names only bytes"
		if got := slices.Contains(v.Notes, note); got != want || v.Counts.Required != 3 {
			t.Errorf("tag %q: notes %q, %s", tag, v.Notes, v.Counts)
		}
	}
}

// TestPolicyOfAnImage: what a policy says of an image, it says of every
// platform, and a platform is what the image's configuration says.
func TestPolicyOfAnImage(t *testing.T) {
	for name, c := range map[string]struct {
		configured string
		want       bool
	}{"as listed (twin)": {"arm64", false}, "another": {"amd64", true}} {
		l, _ := layoutOf(t, "amd64", c.configured)
		v := gate.PolicyRequest{Verifier: &verify.Verifier{}}.Image(t.Context(), gate.Image{Source: l, Name: "demo:v1", Repository: "demo", Tag: "v1"})
		if got := slices.Contains(codes(v), verdict.Platform); got != c.want || v.Counts.Required != 3 {
			t.Errorf("%s: codes %v, required %d", name, codes(v), v.Counts.Required)
		}
	}
}
