package featurestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/kubernetes"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// cluster stores features as custom resources in a namespace of a Kubernetes cluster, one
// for each: NAMESPACE.NAME, in lower case.
//
// Spec and status are written by requests and with rights of their own. The generation of
// a feature is the sum of two counts of writes: Kubernetes counts those of the spec, and
// status.revision those of the status; so a person who edits the spec with kubectl is
// noticed like any other writer. Each request names the version that was read. A write of
// both parts that ends between them leaves the new spec with the old status, as if only
// the desired state had changed. An object without a status is an announcement that was
// interrupted: it counts as absent until it is completed.
type cluster struct{ at *kubernetes.Place }

// resource is the object in the cluster.
type resource struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Metadata   kubernetes.Meta `json:"metadata"`
	Spec       json.RawMessage `json:"spec"`
	Status     json.RawMessage `json:"status,omitempty"`
}

// resourceSpec also names the feature, because names in Kubernetes have no capitals.
type resourceSpec struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	feature.Spec
}

// resourceStatus also counts its writes.
type resourceStatus struct {
	Revision int `json:"revision"`
	feature.Status
}

const (
	resourceGroup = "waybill.dev/v1alpha1"
	// strict makes the server refuse a field that it would drop.
	strict = "?fieldValidation=Strict"
)

func (c *cluster) path(name string) string {
	return c.at.At("apis/"+resourceGroup, "features"+name)
}

func resourceName(k feature.Key) string { return strings.ToLower(k.Namespace + "." + k.Name) }

// parse reads the feature in a resource, strictly, and how often its status was written.
func (c *cluster) parse(r resource) (feature.Feature, int, error) {
	var spec resourceSpec
	var status resourceStatus
	err := strictjson.Unmarshal(r.Spec, &spec, strictjson.MaxSize(feature.MaxSize))
	if err == nil {
		err = strictjson.Unmarshal(r.Status, &status, strictjson.MaxSize(2*feature.MaxSize))
	}
	f := feature.Feature{APIVersion: feature.APIVersion, Kind: "Feature", Spec: spec.Spec, Status: status.Status}
	f.Metadata = feature.Metadata{Namespace: spec.Namespace, Name: spec.Name, Generation: r.Metadata.Generation + status.Revision - 1}
	if err == nil {
		err = f.Validate()
	}
	if err == nil && (resourceName(f.Key()) != r.Metadata.Name || status.Revision < 1) {
		err = fmt.Errorf("the object is revision %d of %s", status.Revision, f.Key())
	}
	if err != nil {
		return feature.Feature{}, 0, verdict.Wrap(verdict.ConfigParse, r.Metadata.Name+" at "+c.at.URI(), err).Advise("find out who wrote it; Waybill does not")
	}
	return f, status.Revision, nil
}

// read reads a resource. It has no status if the feature is absent, and no version if
// nothing is there.
func (c *cluster) read(ctx context.Context, k feature.Key) (r resource, err error) {
	err = c.at.Do(ctx, http.MethodGet, c.path("/"+resourceName(k)), nil, &r)
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return r, err
}

// Get implements [Store].
func (c *cluster) Get(ctx context.Context, k feature.Key) (feature.Feature, error) {
	r, err := c.read(ctx, k)
	if err != nil {
		return feature.Feature{}, err
	}
	absent := fmt.Errorf("reading feature %s at %q: %w", k, c.at.URI(), ErrNotFound)
	if r.Status == nil {
		return feature.Feature{}, absent
	}
	f, _, err := c.parse(r)
	if err == nil && f.Key() != k { // in other letters
		return feature.Feature{}, absent
	}
	return f, err
}

// List implements [Store].
func (c *cluster) List(ctx context.Context) (list []feature.Feature, err error) {
	all, err := kubernetes.All[resource](ctx, c.at, "apis/"+resourceGroup, "features", "")
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		if r.Status == nil {
			continue
		}
		f, _, err := c.parse(r)
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return sorted(list), nil
}

// Create implements [Store].
func (c *cluster) Create(ctx context.Context, f feature.Feature) (feature.Feature, error) {
	if _, _, err := first(f); err != nil {
		return feature.Feature{}, err
	}
	r, err := c.read(ctx, f.Key())
	if err == nil && r.Status != nil {
		err = fmt.Errorf("creating feature %s: already exists: %w", f.Key(), ErrConflict)
	}
	if err != nil {
		return feature.Feature{}, err
	}
	if r, err = c.writeSpec(ctx, r, f); err != nil {
		return feature.Feature{}, err
	}
	return c.writeStatus(ctx, r, f, 1)
}

// Update implements [Store].
func (c *cluster) Update(ctx context.Context, f feature.Feature) (feature.Feature, error) {
	r, err := c.read(ctx, f.Key())
	if err != nil {
		return feature.Feature{}, err
	}
	if r.Status == nil {
		return feature.Feature{}, fmt.Errorf("writing feature %s: %w", f.Key(), ErrNotFound)
	}
	before, revision, err := c.parse(r) // do not hide an invalid object behind a new one
	if err == nil && before.Metadata.Generation != f.Metadata.Generation {
		err = conflict(f, before.Metadata.Generation)
	}
	if err == nil {
		_, _, err = next(f)
	}
	if err != nil {
		return feature.Feature{}, err
	}
	counted := r.Metadata.Generation
	if !reflect.DeepEqual(before.Spec, f.Spec) {
		if r, err = c.writeSpec(ctx, r, f); err != nil {
			return feature.Feature{}, err
		}
	}
	if counted != r.Metadata.Generation && reflect.DeepEqual(before.Status, f.Status) {
		f.Metadata.Generation++
		return f, nil
	}
	return c.writeStatus(ctx, r, f, revision+1)
}

// writeSpec creates a resource, or replaces the spec of the one that was read.
func (c *cluster) writeSpec(ctx context.Context, r resource, f feature.Feature) (_ resource, err error) {
	if r.Spec, err = json.Marshal(resourceSpec{f.Metadata.Namespace, f.Metadata.Name, f.Spec}); err != nil {
		return resource{}, err
	}
	if r.Metadata.ResourceVersion == "" {
		return c.write(ctx, http.MethodPost, "", f.Key(), r)
	}
	return c.write(ctx, http.MethodPut, "/"+resourceName(f.Key()), f.Key(), r)
}

// writeStatus replaces the status of the resource that was read.
func (c *cluster) writeStatus(ctx context.Context, r resource, f feature.Feature, revision int) (_ feature.Feature, err error) {
	if r.Status, err = json.Marshal(resourceStatus{revision, f.Status}); err != nil {
		return feature.Feature{}, err
	}
	if r, err = c.write(ctx, http.MethodPut, "/"+resourceName(f.Key())+"/status", f.Key(), r); err != nil {
		return feature.Feature{}, err
	}
	f.Metadata.Generation = r.Metadata.Generation + revision - 1
	return f, nil
}

// write sends a resource, and returns it as it is stored.
func (c *cluster) write(ctx context.Context, method, path string, k feature.Key, r resource) (written resource, err error) {
	r.APIVersion, r.Kind, r.Metadata.Name = resourceGroup, "Feature", resourceName(k)
	err = c.at.Do(ctx, method, c.path(path+strict), r, &written)
	switch {
	case errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrChanged):
		err = fmt.Errorf("writing feature %s: %w", k, ErrConflict)
	case errors.Is(err, store.ErrNotFound):
		err = fmt.Errorf("writing feature %s: %w", k, ErrNotFound)
	}
	return written, err
}
