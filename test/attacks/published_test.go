package attacks

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// TestPublished: where a package is asked for, npm's statement that it was
// published must name it, in npm's registry.
func TestPublished(t *testing.T) {
	f := writer{w: theWorld(t)}
	issuer, subject := f.w.Lab.Identity(lab.RoleRelease)
	who := gate.SignedBy(f.w.verifier, must[identity.Matcher](t)(identity.Exact(identity.Identity{Issuer: issuer, Subject: subject, Type: identity.Email})))
	for _, r := range []struct {
		name, predicate, asked string
		code                   verdict.Code
	}{
		{"the package", `{"name":"@scope/lamp","version":"1.0.1","registry":"https://registry.npmjs.org"}`, "@scope/lamp@1.0.1", ""},
		{"its registry with a slash", `{"name":"@scope/lamp","version":"1.0.1","registry":"https://registry.npmjs.org/"}`, "@scope/lamp@1.0.1", ""},
		{"another name", `{"name":"lamp","version":"1.0.1","registry":"https://registry.npmjs.org"}`, "@scope/lamp@1.0.1", verdict.Conflict},
		{"another version", `{"name":"@scope/lamp","version":"1.0.10","registry":"https://registry.npmjs.org"}`, "@scope/lamp@1.0.1", verdict.Conflict},
		{"another registry", `{"name":"@scope/lamp","version":"1.0.1","registry":"https://npm.example.test"}`, "@scope/lamp@1.0.1", verdict.Conflict},
		{"no registry", `{"name":"@scope/lamp","version":"1.0.1"}`, "@scope/lamp@1.0.1", verdict.Conflict},
		{"two names", `{"name":"lamp","name":"@scope/lamp","version":"1.0.1","registry":"https://registry.npmjs.org"}`, "@scope/lamp@1.0.1", verdict.StatementParse},
		{"nothing", `{}`, "@scope/lamp@1.0.1", verdict.Conflict},
		{"nothing, where no package is asked for", `{}`, "", ""},
		{"another subject", `{"name":"lamp","version":"1.0.1","registry":"https://registry.npmjs.org"}`, "lamp@1.0.1", verdict.NotBound},
	} {
		t.Run(r.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "lamp.tgz")
			signed := f.bundle(t, lab.RoleRelease, statementOf(intoto.TypeV1, npmPublish, "pkg:npm/%40scope/lamp@1.0.1", r.predicate))
			for name, body := range map[string]string{file: artifact, file + gate.BundleSuffix: signed} {
				if err := os.WriteFile(name, []byte(body), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			v := gate.Files(t.Context(), gate.FileRequest{Files: []gate.File{{Path: file}}, Ask: gate.Ask{Signer: who, Type: npmPublish, Package: r.asked}, Now: time.Now()})
			if r.code == "" {
				refused(t, v.Err())
				return
			}
			refused(t, v.Err(), r.code)
		})
	}
}
