// Package sbomfetch finds the SBOM of an image or file where tools attach it.
// Anyone who can write there can attach anything: what is broken or about other
// bytes is skipped, and nothing is verified before [Found.Verify].
//
// Other projects should not import this package: it changes without notice.
package sbomfetch

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Found is one SBOM, and the evidence beside it.
type Found struct {
	Document []byte
	Where    string
	kind     string        // predicate type; empty for a signature over Document
	of       digest.Digest // of what was signed or stated about
	bundle   []byte        // nil if unsigned
}

// Verify decides whether the asked signer signed the SBOM.
func (f Found) Verify(ctx context.Context, ask gate.Ask, now time.Time) (*verdict.Verdict, error) {
	if f.bundle == nil {
		return nil, verdict.Refuse(verdict.Unsigned, f.Where, "the SBOM has no signature that can be verified")
	}
	dir, err := os.MkdirTemp("", "waybill-sbom-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is temporary
	ask.Type = f.kind
	file := gate.File{Digest: f.of, Bundle: filepath.Join(dir, "evidence")}
	if err := os.WriteFile(file.Bundle, f.bundle, 0o600); err != nil {
		return nil, err
	}
	return gate.Files(ctx, gate.FileRequest{Files: []gate.File{file}, Ask: ask, Now: now}), nil
}

// Image finds the SBOMs of an image, or of one platform in it: attestations that
// refer to it, the tags .att and .sbom of cosign, and the manifests that BuildKit
// lists in an index.
func Image(ctx context.Context, image gate.Image, platform string) ([]Found, error) {
	src, repo := image.Source, image.Repository
	root, err := registry.Target{Source: src, Repository: repo}.Graph(ctx, image.Reference())
	if err != nil {
		return nil, err
	}
	node, parts, act := root.Part(platform), []string{}, ""
	for _, n := range root.Images() {
		if parts = append(parts, n.Descriptor.Platform); platform == "" && n != root {
			act = "name a platform: --platform " + strings.Join(parts, ", or ")
		}
	}
	if node == nil {
		return nil, verdict.Refuse(verdict.Platform, image.Name, "the image has no platform %.100q; it has %s", platform, strings.Join(parts, ", "))
	}
	s := search{of: node.Descriptor.Digest}
	bundles, err := registry.Bundles(ctx, src, repo, s.of)
	for _, raw := range bundles {
		s.addBundle("attestation", raw)
	}
	attested, down := registry.AttachedTo(ctx, src, repo, s.of, registry.SuffixAttestations)
	for _, l := range attested {
		if m, other := legacy.ParseAttestation(legacy.Certificate, l); other == nil {
			bundle, _ := m.Bundle() // without one it counts as unsigned
			payload, _ := l.Payload()
			envelope, _ := intoto.ParseEnvelope(payload) // parsed before
			s.add("tag "+registry.AttachedTag(s.of, registry.SuffixAttestations), envelope.Payload, bundle)
		}
	}
	plain, gone := registry.AttachedTo(ctx, src, repo, s.of, ".sbom")
	for _, l := range plain {
		document, unread := l.Payload()
		s.found, err = append(s.found, Found{Document: document, Where: "tag " + registry.AttachedTag(s.of, ".sbom")}), errors.Join(err, unread)
	}
	for _, n := range root.Children {
		for _, l := range n.Layers {
			if n.IsBuildEvidence() && n.Descriptor.Annotations["vnd.docker.reference.digest"] == s.of.String() {
				raw, unread := registry.Read(ctx, src, repo, l, spdx.MaxSize)
				s.add("BuildKit's manifest "+n.Descriptor.Digest.String(), raw, nil)
				err = errors.Join(err, unread)
			}
		}
	}
	return s.result(image.Name, act, errors.Join(err, down, gone))
}

// File finds the SBOM beside a file: NAME.spdx.json or NAME.spdx about its bytes,
// with its bundle, or an attestation in the bundle of the file.
func File(path string) ([]Found, error) {
	file, err := store.OpenNamed(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	s := search{}
	if s.of, _, err = digest.SumSHA256(file); err != nil {
		return nil, err
	}
	for _, where := range []string{path + ".spdx.json", path + ".spdx"} {
		document, unread := beside(where)
		bundle, unsigned := beside(where + gate.BundleSuffix)
		if err = errors.Join(err, unread, unsigned); document == nil {
			continue
		}
		d, report := spdx.Validate(string(document))
		if _, about := d.Describes(); report.Err() != nil || !about.Equal(s.of) {
			return nil, verdict.Refuse(verdict.SBOMSubject, where, "it does not describe the bytes of %q", path)
		}
		s.found = append(s.found, Found{document, where, "", digest.Of(digest.SHA256, document), bundle})
	}
	raw, unread := beside(path + gate.BundleSuffix)
	s.addBundle(path+gate.BundleSuffix, raw)
	return s.result(path, "", errors.Join(err, unread))
}

// beside reads a file, if it is there.
func beside(path string) ([]byte, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return store.ReadNamed(path, spdx.MaxSize)
}

type search struct {
	of    digest.Digest
	found []Found
}

func (s *search) addBundle(where string, raw []byte) {
	if stated, err := verify.Read(raw); err == nil {
		s.add(where, stated.Payload, raw)
	}
}

// add adds the SBOM in a statement about the bytes.
func (s *search) add(where string, raw, bundle []byte) {
	st, err := intoto.ParseOpen(raw)
	if kind := st.PredicateType(); err == nil && st.Binds(digest.Set{SHA256: s.of}) && (st.IsSPDX() || strings.HasPrefix(kind, "https://cyclonedx.org/bom")) {
		s.found = append(s.found, Found{st.Predicate(), where, kind, s.of, bundle})
	}
}

func (s *search) result(name, act string, err error) ([]Found, error) {
	if err == nil && len(s.found) == 0 {
		err = verdict.Refuse(verdict.NoSBOM, name, "no SBOM is attached to it").Advise(cmp.Or(act, "ask its publisher for an SBOM, or generate one"))
	}
	return s.found, err
}
