package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/serve/caller"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// attachedTag is a tag by which clients find evidence about the manifest with
// this digest, or the list of its referrers.
var attachedTag = pattern.Lazy(`\Asha256-[0-9a-f]{64}(\.(sig|att|sbom))?\z`)

// manifest answers a request about a manifest of a guarded repository.
func (s *Server) manifest(w http.ResponseWriter, r *http.Request, p *passage) error {
	ctx, stop := context.WithTimeout(r.Context(), s.limits.Deadline)
	defer stop()
	switch {
	case isRead(r):
		return s.pull(ctx, w, r, p)
	case r.Method == http.MethodPut && !p.byDigest():
		return s.push(ctx, w, r, p)
	case r.Method == http.MethodDelete:
		if err := p.mayDelete(ctx); err != nil {
			return err
		}
	case r.Method != http.MethodPut: // anything may be stored by its digest: it is judged when it is pulled
		return malformed("method %.20q: want GET, HEAD, PUT or DELETE", r.Method)
	}
	return s.forward(w, r, p)
}

// pull answers with the bytes that were read and judged, also if the tag
// names others by now.
func (s *Server) pull(ctx context.Context, w http.ResponseWriter, r *http.Request, p *passage) error {
	d, raw, err := p.at.Manifest(ctx, p.repo, p.ref)
	if err == nil {
		err = s.readable(ctx, r, p, d, raw)
	}
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", d.MediaType)
	w.Header().Set("Docker-Content-Digest", d.Digest.String())
	w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	_, _ = w.Write(raw) // for HEAD, only the headers are sent
	return nil
}

// readable returns an error unless a manifest may be read: because the policy
// accepts it, or because it is evidence. Who may push reads by digest what
// waits for evidence, to sign it.
func (s *Server) readable(ctx context.Context, r *http.Request, p *passage, d registry.Descriptor, raw []byte) error {
	attached := attachedTag().MatchString(p.ref)
	switch {
	case p.pushes && (p.byDigest() || r.Method == http.MethodHead):
		return nil
	case attached && d.IsIndex() && !strings.Contains(p.ref, "."): // what it lists is judged when it is pulled
		return nil
	case (attached || p.byDigest()) && !d.IsIndex():
		if err := d.CheckEvidence(ctx, p.at, p.repo, raw); err == nil || isDown(err) {
			return err
		}
	}
	a := p.ask(d.Digest, caller.Pull)
	if p.byDigest() {
		a = s.proxying.question(a)
	}
	image := p.place + "@" + d.Digest.String()
	if err := s.judged(ctx, r, p, a); err != nil {
		s.proxying.uncover(image)
		return err
	}
	images := []string{image}
	for _, child := range listed(raw).Manifests {
		if sum, is := child["digest"].(string); is {
			images = append(images, p.place+"@"+sum)
		}
	}
	s.proxying.cover(a, images...)
	return nil
}

func isDown(err error) bool { return verdict.OutcomeOf(err) == verdict.Unavailable }

// ask is the question about a manifest of the repository.
func (p *passage) ask(d digest.Digest, verb caller.Verb) asked {
	return asked{
		Question: api.Question{Verb: api.Verb(verb), Image: p.place + "@" + d.String(), To: p.place, Channel: caller.NoChannel, Version: gate.VersionOf([]string{p.ref})},
		host:     strings.TrimSuffix(p.place, "/"+p.repo), repository: p.repo, digest: d, caller: p.who.Name(), anew: true,
	}
}

// judged decides and records, and returns an error unless the image is accepted.
func (s *Server) judged(ctx context.Context, r *http.Request, p *passage, a asked) error {
	leave, err := s.admission.slots.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	decided, acts := s.decider.decide(s.letIn(ctx, r), p.basis, []asked{a})
	if err := s.records.writeDown(ctx, request{id: p.id, who: p.who, basis: p.basis, questions: []asked{a}, decided: decided, acts: acts, took: s.world.Clock().Sub(p.began)}); err != nil {
		return err
	}
	p.decided = true
	return decided[0].Verdict.Err()
}

// push takes a manifest under a tag: evidence under a tag for evidence, and
// under any other an image that is there already, with the evidence that the
// policy requires.
func (s *Server) push(ctx context.Context, w http.ResponseWriter, r *http.Request, p *passage) error {
	raw, err := s.readManifest(ctx, r)
	if err != nil {
		return err
	}
	d := registry.Descriptor{Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))}
	if d.MediaType, _, err = mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil {
		return malformed("Content-Type: want the media type of the manifest")
	}
	if attachedTag().MatchString(p.ref) {
		leave, err := s.proxying.attaching.enter(ctx, p.place+":"+p.ref)
		if err != nil {
			return err
		}
		defer leave()
		if err := p.mayAttach(ctx, d, raw); err != nil {
			return err
		}
	} else if err := s.mayTag(ctx, r, p, d); err != nil {
		return err
	}
	r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(raw)), d.Size, nil
	return s.forward(w, r, p)
}

// readManifest reads a manifest when memory for it is free.
func (s *Server) readManifest(ctx context.Context, r *http.Request) ([]byte, error) {
	leave, err := s.admission.bodies.enter(ctx, "")
	if err != nil {
		return nil, err
	}
	defer leave()
	raw, err := io.ReadAll(io.LimitReader(r.Body, registry.MaxManifest+1))
	switch {
	case err != nil:
		return nil, malformed("the body is incomplete")
	case len(raw) > registry.MaxManifest:
		return nil, verdict.Refuse(verdict.Limit, "manifest", "more than %d bytes", registry.MaxManifest)
	}
	return raw, nil
}

// mayTag judges the bytes that are pushed, never the tag.
func (s *Server) mayTag(ctx context.Context, r *http.Request, p *passage, d registry.Descriptor) error {
	there, _, err := p.at.Manifest(ctx, p.repo, d.Digest.String())
	switch {
	case errors.Is(err, registry.ErrNotFound):
		return verdict.Refuse("TAG_FIRST", p.place+"@"+d.Digest.String(), "the tag %s is pushed, and its image has not been pushed by digest", p.ref)
	case err != nil:
		return err
	case there.MediaType != d.MediaType:
		return verdict.Refuse(verdict.ManifestParse, p.place+"@"+d.Digest.String(), "the manifest is %q, and the tag %s is pushed as %.100q", there.MediaType, p.ref, d.MediaType)
	}
	return s.judged(ctx, r, p, p.ask(d.Digest, caller.Push))
}

// mayAttach refuses under a tag for evidence what is none, and what would lose
// evidence that is there.
func (p *passage) mayAttach(ctx context.Context, d registry.Descriptor, raw []byte) error {
	err := d.CheckEvidence(ctx, p.at, p.repo, raw)
	var none *registry.NoEvidenceError
	switch {
	case errors.As(err, &none):
		return verdict.Wrap(verdict.MaterialKind, p.place+":"+p.ref, err)
	case err != nil:
		return err
	case d.IsIndex() == strings.Contains(p.ref, "."):
		return verdict.Refuse(verdict.MaterialKind, p.place+":"+p.ref, "want a list of referrers under a tag without suffix, and one manifest under any other")
	}
	_, before, err := p.at.Manifest(ctx, p.repo, p.ref)
	if errors.Is(err, registry.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	now := listed(raw).texts()
	for _, text := range listed(before).texts() {
		if !slices.Contains(now, text) {
			return p.keep("the tag %s has evidence that the new manifest lacks; add to it: %.300s", p.ref, text)
		}
	}
	return nil
}

// mayDelete refuses to delete evidence.
func (p *passage) mayDelete(ctx context.Context) error {
	evidence := attachedTag().MatchString(p.ref)
	if p.byDigest() {
		d, raw, err := p.at.Manifest(ctx, p.repo, p.ref)
		if err != nil {
			return err
		}
		if err = d.CheckEvidence(ctx, p.at, p.repo, raw); isDown(err) {
			return err
		}
		evidence = err == nil
	}
	if evidence {
		return p.keep("%s is evidence", p.ref)
	}
	return nil
}

// listing is what a manifest lists.
type listing struct {
	Layers    []map[string]any `json:"layers"`    // with their annotations, which hold signatures
	Manifests []map[string]any `json:"manifests"` // with their types, by which clients choose evidence
}

// listed reads a manifest that was parsed before.
func listed(raw []byte) (l listing) {
	_ = json.Unmarshal(raw, &l) // it parses
	return l
}

// texts are the entries in a form that can be compared.
func (l listing) texts() (all []string) {
	for _, entry := range append(l.Manifests, l.Layers...) {
		text, _ := json.Marshal(entry) // it was parsed, and its keys are sorted now
		all = append(all, string(text))
	}
	return all
}
