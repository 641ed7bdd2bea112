// Package observe reads the record of a finished build from the API of the
// service that ran it. Package buildrecord says what a record contains.
//
// Other projects should not import this package: it changes without notice.
package observe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/github"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/buildrecord"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const maxAnswer = 16 << 20

// Services is how the services are reached: a transport, and with the clients of a
// cloud how its places are opened, and how requests get its credentials.
type Services struct {
	Transport  http.RoundTripper
	OpenPlace  func(uri string, rt http.RoundTripper) (store.Place, error)
	Authorised func(ctx context.Context, rt http.RoundTripper) (http.RoundTripper, error)
}

// record are the answers of a service, by the name of the member.
type record map[string]json.RawMessage

// Read reads the record of a build, as [buildrecord.Parse] takes it. Requests
// carry the tokens of the services' own clients: Google's application default
// credentials, and GH_TOKEN.
func (s Services) Read(ctx context.Context, b buildrecord.Build) ([]byte, error) {
	var members record
	err := error(verdict.Refuse(verdict.Usage, b.Service, "unknown service, want gcb, prow or github"))
	switch b.Service {
	case "gcb":
		members, err = s.cloudBuild(ctx, b.Name)
	case "prow":
		members, err = s.prow(ctx, b.Name)
	case "github":
		members, err = run(ctx, b.Name, s.Transport)
	}
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, github.ErrNotFound):
		return nil, verdict.Wrap(verdict.Missing, b.Name, err)
	case err != nil:
		return nil, err
	}
	raw, err := json.Marshal(members)
	if err != nil {
		err = verdict.Wrap(verdict.StatementParse, b.Name, fmt.Errorf("the service's answer is truncated, or no JSON: %w", err))
	}
	return raw, err
}

// cloudBuild reads a build, and the manifest of the objects that it uploaded.
func (s Services) cloudBuild(ctx context.Context, name string) (record, error) {
	rt, endpoint, bucket := s.Transport, "https://cloudbuild.googleapis.com/", "gs://"
	if at, id, emulated := strings.Cut(name, "/projects/"); emulated {
		endpoint, bucket, name = at+"/", "gs+"+at+"/", "projects/"+id
	} else {
		var err error
		if rt, err = s.Authorised(ctx, rt); err != nil {
			return nil, &verdict.UnavailableError{Place: endpoint, Op: "finding credentials", Err: err}
		}
	}
	parent, id := path.Split(name)
	api, err := store.Open(endpoint+"v1/"+parent, rt)
	if err != nil {
		return nil, err
	}
	build, err := store.Read(ctx, api, id, maxAnswer)
	if err != nil {
		return nil, err
	}
	var known struct {
		Results          struct{ ArtifactManifest string }
		SourceProvenance struct{ ResolvedConnectedRepository struct{ Repository string } }
	}
	members := record{"build": build}
	if err := json.Unmarshal(build, &known); err != nil {
		return members, nil //nolint:nilerr // a record that cannot be parsed is refused later
	}
	if connected := known.SourceProvenance.ResolvedConnectedRepository.Repository; connected != "" { // a name of the service; its record has the address
		parent, id = path.Split(path.Clean("/" + connected))
		if api, err = store.Open(endpoint+"v2"+parent, rt); err == nil {
			members["repository"], err = store.Read(ctx, api, id, maxAnswer)
		}
		if err != nil {
			return nil, err
		}
	}
	if known.Results.ArtifactManifest == "" {
		return members, nil
	}
	parent, id = path.Split(strings.TrimPrefix(known.Results.ArtifactManifest, "gs://"))
	from, err := s.OpenPlace(bucket+parent, s.Transport)
	if err != nil {
		return nil, err
	}
	lines, err := store.Read(ctx, from, id, maxAnswer)
	members["artifacts"] = fmt.Appendf(nil, "[%s]", bytes.ReplaceAll(bytes.TrimSpace(lines), []byte("\n"), []byte(",")))
	return members, err
}

// prow reads the files that Prow writes to the directory of a job. Without
// finished.json the job has not ended.
func (s Services) prow(ctx context.Context, name string) (record, error) {
	from, err := s.OpenPlace(strings.TrimSuffix(name, "/")+"/", s.Transport)
	if err != nil {
		return nil, err
	}
	members := record{}
	for member, file := range map[string]string{"prowjob": "prowjob.json", "finished": "finished.json", "clones": "clone-records.json"} {
		raw, err := store.Read(ctx, from, file, maxAnswer)
		if err == nil {
			members[member] = raw
		} else if member == "prowjob" || !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
	}
	objects, err := from.List(ctx)
	if err != nil {
		return nil, err
	}
	listing := []map[string]string{}
	for _, o := range objects {
		if artifact, is := strings.CutPrefix(o.Name, "artifacts/"); is {
			listing = append(listing, map[string]string{"name": artifact})
		}
	}
	members["listing"], err = json.Marshal(listing)
	return members, err
}

func run(ctx context.Context, name string, rt http.RoundTripper) (record, error) {
	if !github.Is(name) {
		name = "github://" + name
	}
	c, err := github.New(name, rt)
	if err != nil {
		return nil, err
	}
	run, artifacts, err := c.Run(ctx)
	return record{"run": run, "artifacts": artifacts}, err
}
