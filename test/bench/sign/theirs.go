package sign

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"os"
	"os/exec"
	"slices"
)

// cosign3 signs with signing config and trusted root, one process for each.
func (w *world) cosign3(ctx context.Context, req Request) ([]*exec.Cmd, error) {
	common := []string{"--identity-token", w.path(tokenName), "--yes", "--trusted-root", w.path(rootName), "--signing-config", w.path(configName)}
	var list []*exec.Cmd
	add := func(args ...string) {
		cmd := exec.CommandContext(ctx, req.Peer, slices.Concat(args[:1], common, args[1:])...)
		cmd.Env = append(os.Environ(), "HOME="+w.dir, "DOCKER_CONFIG="+w.dir)
		list = append(list, cmd)
	}
	if req.What == Statement {
		if err := w.writeStatement(req.N); err != nil {
			return nil, err
		}
		add("attest-blob", "--statement", w.path(statementName), "--bundle", w.path(bundlesDir, statementName+bundleExt), w.path(filesDir, fileName(0)))
		return list, nil
	}
	for i := range req.N {
		if req.What == Images {
			add("sign", "--recursive", "--allow-http-registry", w.image(i))
		} else {
			add("sign-blob", "--bundle", w.path(bundlesDir, fileName(i)+bundleExt), w.path(filesDir, fileName(i)))
		}
	}
	return list, nil
}

// cosign2 signs files like cosign3. Images it signs in the legacy form, for the
// log takes no entries of the kind that it makes of them in the newer one.
func (w *world) cosign2(ctx context.Context, req Request) ([]*exec.Cmd, error) {
	if req.What == Files {
		list, err := w.cosign3(ctx, req)
		for _, cmd := range list {
			cmd.Args = append(cmd.Args[:2:2], append([]string{"--new-bundle-format"}, cmd.Args[2:]...)...)
		}
		return list, err
	}
	env, err := w.legacyTrust()
	if err != nil {
		return nil, err
	}
	var list []*exec.Cmd
	for i := range req.N {
		cmd := exec.CommandContext(ctx, req.Peer, "sign", "--recursive", "--yes", "--allow-http-registry", "--new-bundle-format=false",
			"--fulcio-url", w.at(w.Fulcio), "--rekor-url", w.at(w.RekorV1), "--oidc-issuer", w.Issuer, "--identity-token", w.path(tokenName), w.image(i))
		cmd.Env = append(append(os.Environ(), "HOME="+w.dir, "DOCKER_CONFIG="+w.dir, "COSIGN_PASSWORD="), env...)
		list = append(list, cmd)
	}
	return list, nil
}

// legacyTrust writes the trusted root in the pieces in which older clients want
// it, and says where they are.
func (w *world) legacyTrust() ([]string, error) {
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
	if err := json.Unmarshal(w.TrustedRoot, &root); err != nil {
		return nil, err
	}
	var chain, ct, log []byte
	for _, c := range root.CAs[0].CertChain.Certificates {
		chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.RawBytes})...)
	}
	ct = pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: root.CT[0].PublicKey.RawBytes})
	for _, l := range root.Log {
		if l.BaseURL == w.RekorV1 {
			log = pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: l.PublicKey.RawBytes})
		}
	}
	var env []string
	for name, text := range map[string][]byte{"SIGSTORE_ROOT_FILE": chain, "SIGSTORE_CT_LOG_PUBLIC_KEY_FILE": ct, "SIGSTORE_REKOR_PUBLIC_KEY": log} {
		if err := os.WriteFile(w.path(name), text, 0o600); err != nil {
			return nil, err
		}
		env = append(env, name+"="+w.path(name))
	}
	return env, nil
}
