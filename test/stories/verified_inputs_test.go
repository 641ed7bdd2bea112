package stories

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// TestVerifiedInputsStory: a policy says who signs the base image. Lock and
// build refuse one that is unsigned, and an unreachable registry is neither; a
// refused lock stays as it was. Signed, the release goes through.
func TestVerifiedInputsStory(t *testing.T) {
	const signer = "keyless@distroless.example.test"
	s := openExample(t, shell)
	ctx, lockFile := t.Context(), s.Path("lantern", plan.LockName)
	old, err := os.ReadFile(lockFile)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := plan.ParseLock(old)
	if err != nil {
		t.Fatal(err)
	}
	pin := lock.Bases["static"]
	issuer, _ := s.Lab.Identity(signer)
	policy, err := os.ReadFile(s.Path("policy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	rows := fmt.Sprintf("inputs:\n- image: %s/\n  signers: [{issuer: %q, subject: %s, type: email}]\n  checks: {signature: require, provenance: \"off\"}\nsource: {", s.Lab.Registry+"/base", issuer, signer)
	run := func(args ...string) func(code int, said ...string) {
		return func(code int, said ...string) {
			t.Helper()
			want(t, s.Run(ctx, append([]string{"waybill", "lock", "--dir", "lantern"}, args...)...), code, said...)
			if code == 0 {
				return
			}
			if now, err := os.ReadFile(lockFile); err != nil || !bytes.Equal(now, old) {
				t.Errorf("the lock was changed: %v", err)
			}
		}
	}
	run("--profile", "profile.yaml")(2, "USAGE", "has no inputs")
	if err := os.WriteFile(s.Path("policy.yaml"), bytes.Replace(policy, []byte("source: {"), []byte(rows), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	run("--profile", "profile.yaml", "--confirm")(1, "UNSIGNED", "/base/static@"+pin.Digest.String())
	want(t, s.Stage(ctx), 1, "UNSIGNED", "/base/static@"+pin.Digest.String())
	down := "127.0.0.1:1/base/static@" + pin.Digest.String()
	if err := os.WriteFile(s.Path("down.yaml"), bytes.Replace(bytes.Replace(policy, []byte("source: {"), []byte(rows), 1), []byte(s.Lab.Registry+"/base/"), []byte("127.0.0.1:1/base/"), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	profile, err := os.ReadFile(s.Path("profile.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.Path("down-profile.yaml"), bytes.Replace(profile, []byte("policy.yaml"), []byte("down.yaml"), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	run("--profile", "down-profile.yaml", "--base", "static="+down, "--confirm")(3, "UNAVAILABLE")

	st, err := intoto.New(intoto.CosignSignature, []intoto.Subject{{Digests: digest.Set{SHA256: pin.Digest}}}, struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := s.Sign(ctx, signer, st.Raw())
	if err != nil {
		t.Fatal(err)
	}
	remote, err := registry.OpenRemote(s.Lab.Registry, http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	repository := strings.TrimPrefix(pin.Image, s.Lab.Registry+"/")
	base, err := remote.Resolve(ctx, repository, pin.Digest.String())
	if err != nil {
		t.Fatal(err)
	}
	d, raw, blobs := registry.BundleManifest(base, bundle, intoto.CosignSignature)
	if err := (registry.Parcel{Descriptor: d, Raw: raw, Blobs: blobs}).PushTo(ctx, remote, repository); err != nil {
		t.Fatal(err)
	}
	run("--profile", "profile.yaml", "--confirm")(0, "verified: "+pin.Image+"@"+pin.Digest.String(), "by "+signer, "up to date")
	want(t, s.Stage(ctx), 0, "verified: "+pin.Image)
	want(t, s.Release(ctx), 0)
	want(t, s.Verify(ctx), 0, "OK ", "no row of inputs names them: 1 input: tool ")
	want(t, s.Run(ctx, "waybill", "policy", "explain", "policy.yaml"), 0, "What it may be made of", "images below "+s.Lab.Registry+"/base/ needs signature", signer)
}
