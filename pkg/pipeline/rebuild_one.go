package pipeline

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/difference"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/produce/goprogram"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Found is a file or an image with its provenance, without the rest of its release.
type Found struct {
	// Version is that of the release of which the provenance says it is a part.
	Version   version.Version
	m         manifest.Manifest // lists it and its provenance alone
	published copyOf
}

// FindFile finds out what a file is by the provenance in a bundle.
func FindFile(ctx context.Context, by gate.Gate, path, bundle string) (*Found, error) {
	at, err := openFile(path)
	if err != nil {
		return nil, err
	}
	beside, err := openFile(bundle)
	if err != nil {
		return nil, err
	}
	raw, err := store.Read(ctx, beside, bundle, verify.MaxBundle)
	if err != nil {
		return nil, err
	}
	sum, err := sumIn(ctx, at, path)
	if err != nil {
		return nil, err
	}
	return identify(by, path, sum, copyOf{files: at}, raw)
}

// FindImage finds out what an image is by the provenance that is attached to it.
func FindImage(ctx context.Context, by gate.Gate, image gate.Image) (*Found, error) {
	d, err := image.Source.Resolve(ctx, image.Repository, image.Reference())
	if err != nil {
		return nil, err
	}
	bundles, err := registry.Bundles(ctx, image.Source, image.Repository, d.Digest, provenance.PredicateType)
	if err != nil {
		return nil, err
	}
	return identify(by, image.Name, d.Digest, copyOf{images: registry.Renamed{Source: image.Source, As: image.Repository}}, bundles...)
}

// identify names an artifact as the first bundle does that the policy accepts as
// its provenance. Anybody can attach others.
func identify(by gate.Gate, name string, sum digest.Digest, at copyOf, bundles ...[]byte) (*Found, error) {
	var err error = verdict.Refuse(verdict.EvidenceMissing, name, "no provenance is attached to it")
	for _, raw := range bundles {
		var e verify.Evidence
		var said provenance.Provenance
		if e, err = by.Verifier().Attestation(raw); err != nil {
			continue
		}
		if said, err = provenance.Parse(e.Statement()); err != nil {
			continue
		}
		asked := said.BuildDefinition.ExternalParameters
		if err = by.Profile().Policy.Provenance(e, asked.Version); err != nil {
			continue
		}
		f := &Found{m: manifest.Manifest{Name: name}}
		if f.Version, err = version.Parse(asked.Version); err != nil {
			continue
		}
		f.m.Source = manifest.Source{Repository: asked.Config.Repository, Ref: asked.Config.Ref, Commit: said.SourceCommit()}
		for _, s := range e.Statement().Subjects() {
			if s.Digests.SHA256.Equal(sum) {
				with := s.Name + gate.BundleSuffix
				f.m.Artifacts = []manifest.Artifact{
					{Artifact: plan.Artifact{Name: s.Name}, Digests: s.Digests, Provenance: with}, {Artifact: plan.Artifact{Name: with}, Digests: digest.SetOf(raw)},
				}
				f.published = copyOf{oneFile{at.files, s.Name, with, raw}, at.images}
				return f, nil
			}
		}
		err = verdict.Refuse(verdict.NotBound, name, "the provenance is not about these bytes")
	}
	return nil, err
}

// oneFile is a place with one file, under every name but that of its provenance.
type oneFile struct {
	store.Place
	base, provenance string
	bundle           []byte
}

func openFile(path string) (oneFile, error) {
	at, err := store.Open(filepath.Dir(path), nil)
	return oneFile{Place: at, base: filepath.Base(path)}, err
}

// Open implements [store.Place].
func (f oneFile) Open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	if name == f.provenance {
		return io.NopCloser(bytes.NewReader(f.bundle)), int64(len(f.bundle)), nil
	}
	return f.Place.Open(ctx, f.base)
}

// RebuildProgram builds a Go program again from its build information, and
// compares the bytes. The verdict says nothing about who published it.
func RebuildProgram(ctx context.Context, c Config, path, ldflags string) *verdict.Verdict {
	v := verdict.NewCheck("rebuild of the Go program "+path, c.Clock())
	v.Subject, v.Scope.Checks, v.Counts.Required = path, []string{"rebuild"}, 1
	v.Scope.Left = []string{"who published it: build information is unsigned"}
	p, gone := goprogram.Read(path, ldflags)
	for _, err := range gone {
		v.AddError(path, err)
	}
	if len(gone) > 0 {
		return v
	}
	list, err := differencesOf(ctx, c, &p, path)
	if p.Unproven {
		v.Scope.Left = append(v.Scope.Left, "whether others get the same modules (GOSUMDB or GONOSUMDB of this machine leaves out the checksum database)")
	}
	switch {
	case err != nil:
		v.AddError(path, err)
	case len(list) > 0:
		v.Add(mismatch(path, list))
	default:
		v.Counts.Verified = 1
		v.Tell("built again with %s from %s %s with the same bytes.", p.GoVersion, p.Main.Path, p.Main.Version)
	}
	if p.Ldflags != "" && ldflags == "" || len(list) > 0 {
		v.Note("built with the linker flags %q; with -trimpath, build information has no others, such as -X: name them with --ldflags", p.Ldflags)
	}
	return v
}

// differencesOf are the places in which a program differs from the one that is
// built again.
func differencesOf(ctx context.Context, c Config, p *goprogram.Program, path string) ([]difference.Difference, error) {
	var f found
	dir, remove, err := scratch(ctx, &job{Config: c}, &f)
	if err != nil {
		return nil, err
	}
	defer remove()
	made, err := p.Build(ctx, f.isolation.Mode, dir)
	if err != nil {
		return nil, unbuilt(err)
	}
	want, err := openFile(path)
	got, other := openFile(made)
	if err := errors.Join(err, other); err != nil {
		return nil, err
	}
	sum, err := sumIn(ctx, want, path)
	if err != nil {
		return nil, err
	}
	return comparison{want: copyOf{files: want}, got: copyOf{files: got}}.differences(ctx, plan.Artifact{Name: path}, sum)
}
