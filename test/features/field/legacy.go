package field

import (
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	"github.com/waybill-release/waybill/test/lab"
)

// LegacyEnvironment is the environment in which clients from before bundles find
// the authorities of a lab, and nobody's credentials.
func LegacyEnvironment(t testing.TB, l *lab.Lab) []string {
	t.Helper()
	type raw struct {
		RawBytes []byte `json:"rawBytes"`
	}
	var root struct {
		CAs []struct{ CertChain struct{ Certificates []raw } } `json:"certificateAuthorities"`
		CT  []struct{ PublicKey raw }                          `json:"ctlogs"`
		Log []struct {
			BaseURL   string `json:"baseUrl"`
			PublicKey raw
		} `json:"tlogs"`
	}
	must(t, json.Unmarshal(l.TrustedRoot, &root))
	dir := t.TempDir()
	write := func(name, kind string, list ...raw) string {
		var all []byte
		for _, r := range list {
			all = append(all, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: r.RawBytes})...)
		}
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, all, 0o600))
		return path
	}
	env := []string{
		"HOME=" + dir, "DOCKER_CONFIG=" + dir, "TMPDIR=" + dir, "PATH=" + os.Getenv("PATH"), "COSIGN_PASSWORD=",
		"HTTP_PROXY=http://127.0.0.1:1", "HTTPS_PROXY=http://127.0.0.1:1", // which answers nobody
		"SIGSTORE_ROOT_FILE=" + write("fulcio.pem", "CERTIFICATE", root.CAs[0].CertChain.Certificates...),
		"SIGSTORE_CT_LOG_PUBLIC_KEY_FILE=" + write("ct.pem", "PUBLIC KEY", root.CT[0].PublicKey),
	}
	for _, log := range root.Log {
		if log.BaseURL == l.RekorV1 {
			env = append(env, "SIGSTORE_REKOR_PUBLIC_KEY="+write("rekor.pem", "PUBLIC KEY", log.PublicKey))
		}
	}
	return env
}
