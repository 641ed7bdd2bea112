package seal

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sigstore/cosign/v2/pkg/oci"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// signLegacy also signs everything in the forms that predate bundles, if that
// is planned: a .sig and a .cert beside each file, and the tags .sig and .att
// beside each image and each platform. Signatures of an earlier run are
// reused.
func signLegacy(ctx context.Context, l signingInput) error {
	req := l.Request
	if !req.Plan.Legacy() {
		return nil
	}
	if err := req.Signer.NeedLegacy(); err != nil {
		return err
	}
	files, err := signLegacyFiles(ctx, l)
	if err != nil {
		return fmt.Errorf("in the legacy form: %w", err)
	}
	images, err := signLegacyImages(ctx, l)
	if err != nil {
		return fmt.Errorf("in the legacy form: %w", err)
	}
	req.Report(ctx, "signed %s and %s in the legacy form too", plural.Of(files, "file"), plural.Of(images, "image manifest"))
	return nil
}

// signLegacyFiles checks all files before it signs the first.
func signLegacyFiles(ctx context.Context, l signingInput) (int, error) {
	req := l.Request
	var names []string
	var orders []sign.Order
	for _, a := range req.Plan.Artifacts {
		if _, is := a.SignedBySig(); !is {
			continue
		}
		order, err := l.order(ctx, a)
		if err != nil {
			return 0, fmt.Errorf("signing %q: %w", a.Of, err)
		}
		names, orders = append(names, a.Of), append(orders, order)
	}
	if len(orders) == 0 {
		return 0, nil
	}
	return len(orders), req.Signer.Each(ctx, orders, func(i int, bundle []byte, _ verify.Evidence) error {
		if err := checkBlob(req, names[i], orders[i].Bytes, bundle); err != nil {
			return fmt.Errorf("signing %q: %w", names[i], err)
		}
		m, err := legacy.Open(bundle)
		if err != nil {
			return err
		}
		signature, certificate := m.Files()
		if err := checkPair(req, names[i], orders[i].Bytes, signature, certificate); err != nil {
			return err
		}
		for name, text := range map[string][]byte{plan.SigName(names[i]): signature, plan.CertName(names[i]): certificate} {
			if err := req.Workspace.Writer().Put(ctx, name, int64(len(text)), bytes.NewReader(text), store.PutOptions{}); err != nil {
				return fmt.Errorf("writing %q: %w", name, err)
			}
		}
		return nil
	})
}

// checkPair demands of a .sig and a .cert, as others will read them, that
// they belong together and to the file, and that the certificate is the
// release identity's. Two runs must not mix: Kubernetes has published such a
// pair.
func checkPair(req Request, of string, set digest.Set, signature, certificate []byte) error {
	m, err := legacy.ParseFiles(legacy.Certificate, set.SHA256, signature, certificate)
	if err != nil {
		return verdict.Wrap(verdict.FindingOf(of, err).Code, of, err)
	}
	if err := m.Check(); err != nil {
		return verdict.Wrap(verdict.FindingOf(of, err).Code, plan.SigName(of), err)
	}
	err = req.Policy.ActsBy(m.Certificate(), policy.Release, policy.Question{Subject: plan.CertName(of)})
	if f := verdict.FindingOf(of, err); err != nil && (f.Code == verdict.Identity || f.Code == verdict.IdentityRole) {
		other := verdict.Find(verdict.SignedAsElse, plan.CertName(of), "the certificate is not of the release identity")
		return &verdict.Error{Finding: other.Differ(strings.Join(req.Policy.Expected(policy.Release), " or "), f.Got)}
	}
	return err
}

// checkLegacy compares the pair in the workspace with its file.
func checkLegacy(ctx context.Context, req Request, of string) error {
	set, _, err := hashFile(ctx, req.Workspace.Files(), of)
	if err != nil {
		return err
	}
	signature, err := readFile(ctx, req, plan.SigName(of))
	if err != nil {
		return verdict.Wrap(verdict.Unsigned, of, err)
	}
	certificate, err := readFile(ctx, req, plan.CertName(of))
	if err != nil {
		return verdict.Wrap(verdict.Unsigned, of, err)
	}
	return checkPair(req, of, set, signature, certificate)
}

// legacyAbout is one layer to be made about a manifest.
type legacyAbout struct {
	image int    // in the list of images
	bytes []byte // the payload of a signature
	layer oci.Signature
	kind  string // of the statement; empty for a signature
}

// signLegacyImages signs a payload about every index and platform, and its
// SBOM. It does not include provenance: only its builder may sign that, whose
// certificate has expired, and which signs no legacy form.
func signLegacyImages(ctx context.Context, l signingInput) (int, error) {
	req := l.Request
	images, err := imagesOf(ctx, l)
	if err != nil || len(images) == 0 {
		return 0, err
	}
	var layers []legacyAbout
	var orders []sign.Order
	for i, image := range images {
		about, due, err := legacyOf(ctx, req, image)
		if err != nil {
			return 0, err
		}
		for _, one := range about {
			one.image = i
			layers = append(layers, one)
		}
		orders = append(orders, due...)
	}
	err = req.Signer.Each(ctx, orders, func(i int, bundle []byte, _ verify.Evidence) (err error) {
		l := &layers[i]
		l.layer, err = layerOf(req, l.bytes, bundle, l.kind)
		return err
	})
	if err != nil {
		return 0, err
	}
	for i, image := range images {
		if err := attachLegacy(ctx, req, i, image, layers); err != nil {
			return 0, fmt.Errorf("attaching to %q: %w", image.Name, err)
		}
	}
	return len(images), nil
}

// legacyOf is what is signed about one image in the legacy form: a payload,
// and its SBOM if it has one.
func legacyOf(ctx context.Context, req Request, image planned) ([]legacyAbout, []sign.Order, error) {
	pulled := strings.TrimSuffix(req.Plan.Images, "/") + "/" + image.Repository // the name that clients use
	payload, err := legacy.Payload{Image: image.Digest, Reference: pulled}.Bytes()
	if err != nil {
		return nil, nil, err
	}
	layers := []legacyAbout{{bytes: payload}}
	orders := []sign.Order{{Bytes: digest.SetOf(payload), Legacy: true}}
	document, err := imageSBOM(ctx, req, image.Artifact, image.Descriptor)
	if err != nil || document == nil {
		return layers, orders, err
	}
	subject := intoto.Subject{Digests: digest.Set{SHA256: image.Digest}}
	statement, err := intoto.New(intoto.SPDXDocument, []intoto.Subject{subject}, json.RawMessage(document))
	if err != nil {
		return nil, nil, err
	}
	return append(layers, legacyAbout{kind: intoto.SPDXDocument}), append(orders, sign.Order{Statement: statement, Legacy: true}), nil
}

// imagesOf are all planned images, each compared with its provenance.
func imagesOf(ctx context.Context, l signingInput) (list []planned, err error) {
	for _, a := range l.Plan.Artifacts {
		if !a.IsImage() {
			continue
		}
		image, err := l.findImage(ctx, a)
		if err != nil {
			return nil, err
		}
		list = append(list, image)
	}
	return list, nil
}

// layerOf writes a signature as the layer of a tag. Without a payload it is
// of a statement, and the layer is its envelope.
func layerOf(req Request, payload, bundle []byte, kind string) (oci.Signature, error) {
	m, err := legacy.Open(bundle)
	if err != nil {
		return nil, err
	}
	return m.Attached(payload, req.Verifier.Chain(m.Certificate()), kind)
}

// attachLegacy writes both tags of one image, reads them back and judges
// them.
func attachLegacy(ctx context.Context, req Request, i int, image planned, all []legacyAbout) error {
	bySuffix := map[string][]oci.Signature{}
	for _, l := range all {
		switch {
		case l.image != i:
		case l.kind == "":
			bySuffix[registry.SuffixSignatures] = append(bySuffix[registry.SuffixSignatures], l.layer)
		default:
			bySuffix[registry.SuffixAttestations] = append(bySuffix[registry.SuffixAttestations], l.layer)
		}
	}
	images := req.Workspace.Images()
	for suffix, layers := range bySuffix {
		parcel, err := registry.AttachedManifest(layers)
		if err != nil {
			return err
		}
		if err := parcel.PushTo(ctx, images, image.repository); err != nil {
			return err
		}
		if err := images.Tag(ctx, image.repository, registry.AttachedTag(image.Digest, suffix), parcel.Descriptor); err != nil {
			return err
		}
		if err := checkAttached(ctx, req, image, suffix); err != nil {
			return err
		}
	}
	return nil
}

// checkAttached verifies what a tag attaches, as an older client reads it.
func checkAttached(ctx context.Context, req Request, image planned, suffix string) error {
	layers, err := registry.AttachedTo(ctx, req.Workspace.Images(), image.repository, image.Digest, suffix)
	if err != nil {
		return err
	}
	if len(layers) == 0 {
		return verdict.Refuse(verdict.Unsigned, image.Name, "the tag %s has no evidence", registry.AttachedTag(image.Digest, suffix))
	}
	for _, l := range layers {
		e, kind, err := proveLayer(req, l, image.Digest, suffix)
		if err != nil {
			return err
		}
		ask := policy.Ask{Role: policy.Release, Kind: kind, Subject: image.Name, Bytes: digest.Set{SHA256: image.Digest}, InRegistry: true}
		if _, err := req.Policy.Judge(e, ask); err != nil {
			return err
		}
	}
	return nil
}

func proveLayer(req Request, l oci.Signature, image digest.Digest, suffix string) (e verify.Evidence, kind string, err error) {
	parse := legacy.ParseAttestation
	if suffix == registry.SuffixSignatures {
		parse = legacy.ParseLayer
	}
	m, err := parse(legacy.Certificate, l)
	if err != nil {
		return verify.Evidence{}, "", err
	}
	bundle, err := m.Bundle()
	if err != nil {
		return verify.Evidence{}, "", err
	}
	if suffix == registry.SuffixSignatures {
		e, err = req.Verifier.Image(bundle, m.Payload(), image)
		return e, verify.KindImage, err
	}
	e, err = req.Verifier.Attestation(bundle)
	if e.Statement().IsSPDX() { // also the type of an earlier release
		return e, e.Kind(), err
	}
	return e, intoto.SPDXDocument, err
}
