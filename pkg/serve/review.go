package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/serve/caller"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// ClusterUse is how the service answers the API server of a Kubernetes cluster,
// as an admission webhook.
type ClusterUse struct {
	// Caller is the caller that requests without a credential count as. API
	// servers send none unless they are configured to; leave it out then.
	Caller string `yaml:"caller"`
	// Undecided says whether an image is allowed, with a warning, while the gate
	// cannot decide about it: deny or allow.
	Undecided string `yaml:"undecided"`
	// Namespaces are rules; the first that names a namespace counts. Without one
	// every image is denied.
	Namespaces []NamespaceRule `yaml:"namespaces"`
}

// NamespaceRule says what may run in some namespaces.
type NamespaceRule struct {
	// Names are namespaces; a name that ends with * is a prefix.
	Names []string `yaml:"names"`
	// Mode is require, warn (a refusal is only a warning), or off.
	Mode string `yaml:"mode"`
	// Images are the only registries or repositories that images may come from;
	// a name that ends with a slash includes everything below it.
	Images []string `yaml:"images"`
}

func (c *ClusterUse) check() error {
	if c == nil {
		return nil
	}
	if c.Undecided != "deny" && c.Undecided != "allow" {
		return fmt.Errorf("undecided %.20q: want deny or allow", c.Undecided)
	}
	for i, n := range c.Namespaces {
		if len(n.Names) == 0 || slices.Contains(n.Names, "") || !slices.Contains([]string{"require", "warn", "off"}, n.Mode) || (n.Mode == "off") != (len(n.Images) == 0) {
			return fmt.Errorf("namespaces[%d]: want names, a mode (require, warn or off), and images unless the mode is off", i)
		}
	}
	return nil
}

func (c *ClusterUse) rule(namespace string) NamespaceRule {
	for _, n := range c.Namespaces {
		if slices.ContainsFunc(n.Names, func(name string) bool {
			prefix, open := strings.CutSuffix(name, "*")
			return name == namespace || open && strings.HasPrefix(namespace, prefix)
		}) {
			return n
		}
	}
	return NamespaceRule{Mode: "require"}
}

// podSpecs says where objects of a kind have the specification of their pods.
var podSpecs = map[string][]string{
	"Pod": {}, "PodTemplate": {"template"}, "ReplicationController": {"spec", "template"},
	"apps/Deployment": {"spec", "template"}, "apps/ReplicaSet": {"spec", "template"}, "apps/StatefulSet": {"spec", "template"}, "apps/DaemonSet": {"spec", "template"},
	"batch/Job": {"spec", "template"}, "batch/CronJob": {"spec", "jobTemplate", "spec", "template"},
}

// review is an AdmissionReview (admission.k8s.io/v1) with its request.
type review struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Request    struct {
		UID         string          `json:"uid"`
		Kind        groupKind       `json:"kind"`
		Namespace   string          `json:"namespace"`
		Operation   string          `json:"operation"`
		Subresource string          `json:"subResource"`
		Object      json.RawMessage `json:"object"`
		OldObject   json.RawMessage `json:"oldObject"`
	} `json:"request"`
}

type groupKind struct {
	Group string `json:"group"`
	Kind  string `json:"kind"`
}

// key is the key in podSpecs.
func (k groupKind) key() string { return strings.TrimPrefix(k.Group+"/"+k.Kind, "/") }

// podSpec is the part of a specification of pods that names images.
type podSpec struct {
	Containers          []container `json:"containers"`
	InitContainers      []container `json:"initContainers"`
	EphemeralContainers []container `json:"ephemeralContainers"`
	Volumes             []struct {
		Name  string `json:"name"`
		Image *struct {
			Reference string `json:"reference"`
		} `json:"image"`
	} `json:"volumes"`
}

type container struct {
	Name  string `json:"name"`
	Image string `json:"image"`
}

// images are the images of an object by what uses them.
func (v review) images(object json.RawMessage) (all []container, err error) {
	path, known := podSpecs[v.Request.Kind.key()]
	if !known || v.Request.Subresource != "" && v.Request.Subresource != "ephemeralcontainers" {
		return nil, malformed("the gate checks no %.100q, subresource %.100q: leave it out of the rules of the webhook", v.Request.Kind.key(), v.Request.Subresource)
	}
	for _, member := range append(slices.Clone(path), "spec") {
		var members map[string]json.RawMessage
		if err := strictjson.UnmarshalOpen(object, &members); err != nil {
			return nil, malformed("object: %v", err)
		}
		if object = members[member]; object == nil {
			return nil, malformed("object: no %s", member)
		}
	}
	var spec podSpec
	if err := strictjson.UnmarshalOpen(object, &spec); err != nil {
		return nil, malformed("object: %v", err)
	}
	for _, c := range slices.Concat(spec.Containers, spec.InitContainers, spec.EphemeralContainers) {
		all = append(all, container{"container " + c.Name, c.Image})
	}
	for _, volume := range spec.Volumes {
		if volume.Image != nil {
			all = append(all, container{"volume " + volume.Name, volume.Image.Reference})
		}
	}
	return all, nil
}

// newImages are those that an object has and the one before it has not. So an object
// that was there before the webhook can still be scaled, and deleted.
func (v review) newImages() (fresh []container, err error) {
	all, err := v.images(v.Request.Object)
	if err != nil || v.Request.Operation != "UPDATE" {
		return all, err
	}
	old, err := v.images(v.Request.OldObject)
	return slice.Filter(all, func(c container) bool {
		return !slices.ContainsFunc(old, func(o container) bool { return o.Image == c.Image })
	}), err
}

func readReview(raw []byte) (v review, err error) {
	err = strictjson.UnmarshalOpen(raw, &v)
	if err == nil && (v.APIVersion != reviewVersion || v.Kind != reviewKind || v.Request.UID == "" || v.Request.Operation != "CREATE" && v.Request.Operation != "UPDATE") {
		err = fmt.Errorf("operation %.20q: want an %s of %s that creates or updates an object", v.Request.Operation, reviewKind, reviewVersion)
	}
	if err != nil {
		return review{}, malformed("%v", err)
	}
	return v, nil
}

const reviewVersion, reviewKind = "admission.k8s.io/v1", "AdmissionReview"

type reviewed struct {
	UID       string        `json:"uid"`
	Allowed   bool          `json:"allowed"`
	Status    *reviewStatus `json:"status,omitempty"`
	Warnings  []string      `json:"warnings,omitempty"`
	PatchType string        `json:"patchType,omitempty"`
	Patch     []byte        `json:"patch,omitempty"`
}

type reviewStatus struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (r reviewed) body() any {
	return map[string]any{"apiVersion": reviewVersion, "kind": reviewKind, "response": r}
}

// readImages reads a review of an object that names images.
func (s *Server) readImages(basis *standing, who caller.Principal, r *http.Request, raw []byte) (reading, error) {
	v, err := readReview(raw)
	if err != nil {
		return reading{}, err
	}
	rule := s.world.Cluster.rule(v.Request.Namespace)
	var images []container
	if rule.Mode != "off" {
		if images, err = v.newImages(); err != nil {
			return reading{}, err
		}
	}
	var findings []verdict.Finding
	var questions []asked
	for _, c := range images {
		a, err := rule.ask(v.Request.Namespace, c)
		if err == nil {
			err = basis.Callers.May(who, a.act())
		}
		if err != nil {
			findings = append(findings, verdict.FindingOf(c.Name, err))
		} else if !slices.ContainsFunc(questions, func(q asked) bool { return q.Image == a.Image }) {
			a.caller = who.Name()
			questions = append(questions, a)
		}
	}
	if len(questions) > s.limits.batch() {
		return reading{}, malformed("%d images: want at most %d", len(questions), s.limits.batch())
	}
	wait, _ := time.ParseDuration(r.URL.Query().Get("timeout")) // without one, our own
	return reading{questions, wait, func(ctx context.Context, id string, decided []api.Decision) (int, any) {
		for _, f := range findings { // the record has a line for each decision already
			s.records.tally.turnedAway(f.Code)
			s.records.writeNotLetIn(ctx, api.Entry{Request: id, Principal: who.Name(), Code: f.Code, Problem: f.Message, Status: http.StatusForbidden})
		}
		return http.StatusOK, s.world.Cluster.answer(v, rule, findings, decided).body()
	}}, nil
}

// ask is the question about the image of a container or volume.
func (n NamespaceRule) ask(namespace string, c container) (asked, error) {
	name, sum, pinned := strings.Cut(c.Image, "@")
	if !pinned {
		return asked{}, verdict.Refuse("IMAGE_TAG", c.Name, "the image %.300q has no digest, so it can change after it was checked", c.Image)
	}
	if slash := strings.LastIndex(name, "/"); strings.Contains(name[slash+1:], ":") { // the digest counts
		name = name[:slash+1+strings.Index(name[slash+1:], ":")]
	}
	if !slices.ContainsFunc(n.Images, func(i string) bool { return i == name || strings.HasSuffix(i, "/") && strings.HasPrefix(name, i) }) {
		return asked{}, verdict.Refuse(verdict.NotGranted, c.Name, "no rule allows images from %.300q in namespace %.63q", name, namespace)
	}
	return parseQuestion(api.Question{Verb: api.Verify, Image: name + "@" + sum})
}

// answer denies an object that has an image which is not accepted.
func (c *ClusterUse) answer(v review, rule NamespaceRule, findings []verdict.Finding, decided []api.Decision) reviewed {
	out := reviewed{UID: v.Request.UID, Allowed: true}
	code, text := http.StatusServiceUnavailable, []string(nil)
	deny := func(open bool, status int, about string, f verdict.Finding) {
		line := fmt.Sprintf("%.300s: %s: %.500s", about, f.Code, f.Message)
		if open {
			out.Warnings = append(out.Warnings, line)
			return
		}
		out.Allowed, code, text = false, min(code, status), append(text, line)
	}
	for _, f := range findings {
		deny(rule.Mode == "warn", http.StatusForbidden, f.Subject, f)
	}
	for _, d := range decided {
		o := d.Verdict.Outcome()
		if o == verdict.Accepted {
			continue
		}
		down := o == verdict.Unavailable || o == verdict.Undecided
		deny(rule.Mode == "warn" || down && c.Undecided == "allow", map[bool]int{true: http.StatusServiceUnavailable, false: http.StatusForbidden}[down], d.Image, verdict.FindingOf(d.Image, d.Verdict.Err()))
	}
	if !out.Allowed {
		out.Status = &reviewStatus{code, strings.Join(text, "; ")}
	}
	return out
}

// annotated is an object with annotations, and the template of its pods.
type annotated struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Template *annotated `json:"template"`
	} `json:"spec"`
}

// readTrace reads a review of a Pod or a Job, which is answered by a patch that
// stamps it with its trace ids. The initial one is written when the object is
// created; pods of a Job get that of the Job.
func readTrace(_ *standing, _ caller.Principal, _ *http.Request, raw []byte) (reading, error) {
	v, err := readReview(raw)
	var object, old annotated
	op := map[string]trace.Op{"CREATE": trace.Create, "UPDATE": trace.Update}[v.Request.Operation]
	switch kind := v.Request.Kind.key(); {
	case err != nil:
	case kind != "Pod" && kind != "batch/Job" || v.Request.Subresource != "":
		err = malformed("the gate stamps no %.100q: leave it out of the rules of the webhook", kind)
	default:
		err = strictjson.UnmarshalOpen(v.Request.Object, &object)
		if old = object; err == nil && op == trace.Update {
			old = annotated{}
			err = strictjson.UnmarshalOpen(v.Request.OldObject, &old)
		}
	}
	if err != nil {
		return reading{}, err
	}
	return reading{answer: func(ctx context.Context, _ string, _ []api.Decision) (int, any) {
		out := reviewed{UID: v.Request.UID, Allowed: true, PatchType: "JSONPatch"}
		ctx, end := span.Start(ctx, span.Gate)
		defer end(nil)
		_, ids, conflict := span.Stamp(ctx, op, trace.FromAnnotations(old.Metadata.Annotations))
		if has := object.Metadata.Annotations[trace.AnnotationInitial]; conflict != nil || has != "" && has != ids.Initial.String() {
			out.Warnings = append(out.Warnings, "the initial trace id of an object is written once: it stays "+ids.Initial.String())
		}
		patch := stamp("", object, ids.Annotations(), trace.AnnotationTrace, trace.AnnotationSpan, trace.AnnotationInitial)
		if t := object.Spec.Template; t != nil && op == trace.Create && v.Request.Kind.Kind == "Job" {
			patch = append(patch, stamp("/spec/template", *t, ids.Annotations(), trace.AnnotationInitial)...)
		}
		out.Patch, _ = json.Marshal(patch) // strings only
		return http.StatusOK, out.body()
	}}, nil
}

// stamp is the JSON patch that makes some annotations those that are wanted.
func stamp(path string, of annotated, want map[string]string, keys ...string) (patch []map[string]any) {
	has := of.Metadata.Annotations
	path += "/metadata/annotations"
	if has == nil {
		patch = append(patch, map[string]any{"op": "add", "path": path, "value": map[string]string{}})
	}
	for _, key := range keys {
		value, wanted := want[key]
		if _, there := has[key]; wanted {
			patch = append(patch, map[string]any{"op": "add", "path": path + "/" + key, "value": value})
		} else if there {
			patch = append(patch, map[string]any{"op": "remove", "path": path + "/" + key})
		}
	}
	return patch
}
