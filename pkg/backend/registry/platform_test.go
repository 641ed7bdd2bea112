package registry

import "testing"

// TestPlatformsAreHeldAgainstTheConfiguration: an entry for linux/amd64 that
// leads to another image is refused, whoever signed the index.
func TestPlatformsAreHeldAgainstTheConfiguration(t *testing.T) {
	const oci = "application/vnd.oci.image.config.v1+json"
	for name, c := range map[string]struct {
		listed map[string]string // the platform of the index's entry
		config string
		kind   string
		want   string
	}{
		"the same (twin)":                        {map[string]string{"os": "linux", "architecture": "amd64"}, `{"os":"linux","architecture":"amd64"}`, oci, ""},
		"another architecture":                   {map[string]string{"os": "linux", "architecture": "amd64"}, `{"os":"linux","architecture":"arm64"}`, oci, "PLATFORM"},
		"another system":                         {map[string]string{"os": "linux", "architecture": "amd64"}, `{"os":"windows","architecture":"amd64"}`, oci, "PLATFORM"},
		"one that begins alike":                  {map[string]string{"os": "linux", "architecture": "arm64"}, `{"os":"linux","architecture":"arm"}`, oci, "PLATFORM"},
		"a variant in the index alone":           {map[string]string{"os": "linux", "architecture": "arm64", "variant": "v8"}, `{"os":"linux","architecture":"arm64"}`, oci, ""},
		"a variant in the configuration alone":   {map[string]string{"os": "linux", "architecture": "arm64"}, `{"os":"linux","architecture":"arm64","variant":"v8"}`, oci, ""},
		"the same variant (twin)":                {map[string]string{"os": "linux", "architecture": "arm", "variant": "v7"}, `{"os":"linux","architecture":"arm","variant":"v7"}`, oci, ""},
		"another variant":                        {map[string]string{"os": "linux", "architecture": "arm", "variant": "v7"}, `{"os":"linux","architecture":"arm","variant":"v6"}`, oci, "PLATFORM"},
		"a configuration without a platform":     {map[string]string{"os": "linux", "architecture": "amd64"}, `{}`, oci, "PLATFORM"},
		"a configuration that is none":           {map[string]string{"os": "linux", "architecture": "amd64"}, `[]`, oci, "MANIFEST_PARSE"},
		"one that says it twice":                 {map[string]string{"os": "linux", "architecture": "amd64"}, `{"os":"linux","os":"linux","architecture":"amd64"}`, oci, "MANIFEST_PARSE"},
		"an entry without a platform":            {nil, `{"os":"linux","architecture":"amd64"}`, oci, ""},
		"what a build tool says about the image": {map[string]string{"os": "unknown", "architecture": "unknown"}, `{}`, oci, ""},
		"no image":                               {map[string]string{"os": "linux", "architecture": "amd64"}, `{}`, "application/vnd.example.config+json", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := serve(t, nil)
			config := push(t, r, blobOf(c.kind, []byte(c.config)))
			child := pushManifest(t, r, MediaTypeManifest, map[string]any{
				"schemaVersion": 2, "mediaType": MediaTypeManifest, "config": mustWire(config), "layers": []any{},
			})
			entry := map[string]any{"mediaType": child.MediaType, "digest": child.Digest.String(), "size": child.Size}
			if c.listed != nil {
				entry["platform"] = c.listed
			}
			index := pushManifest(t, r, MediaTypeIndex, map[string]any{"schemaVersion": 2, "mediaType": MediaTypeIndex, "manifests": []any{entry}})
			graph, err := Graph(t.Context(), r, "demo", index)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := VerifyBlobs(t.Context(), r, "demo", graph); code(err) != c.want {
				t.Errorf("verifying the blobs: %v, want %q", err, c.want)
			}
			if err := CheckPlatform(t.Context(), r, "demo", graph.Children[0]); code(err) != c.want {
				t.Errorf("checking the platform: %v, want %q", err, c.want)
			}
		})
	}
}

// TestConfigurationsAreRead: the configuration of what a build tool says about
// an image is compared with nothing, and must be there all the same.
func TestConfigurationsAreRead(t *testing.T) {
	for _, platform := range []string{"linux/amd64", "unknown/unknown", ""} {
		r := serve(t, nil)
		config := blobOf("application/vnd.oci.image.config.v1+json", []byte(`{"os":"linux","architecture":"amd64"}`))
		n := &Node{Descriptor: Descriptor{MediaType: MediaTypeManifest, Platform: platform}, Config: config.Descriptor}
		if _, err := VerifyBlobs(t.Context(), r, "demo", n); code(err) != "MISSING" {
			t.Errorf("%q, without its configuration: %v, want MISSING", platform, err)
		}
		push(t, r, config)
		if _, err := VerifyBlobs(t.Context(), r, "demo", n); err != nil {
			t.Errorf("%q (twin): %v", platform, err)
		}
	}
}

// TestForeignLayersAreNotFetched: a layer that names other places is looked for
// in its registry alone.
func TestForeignLayersAreNotFetched(t *testing.T) {
	layer := blobOf("application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", []byte("a layer from elsewhere"))
	for name, want := range map[string]string{"in the registry (twin)": "", "elsewhere": "MISSING"} {
		elsewhere := serve(t, nil)
		push(t, elsewhere, layer)
		r := serve(t, nil)
		if want == "" {
			push(t, r, layer)
		}
		config := push(t, r, blobOf("application/vnd.oci.image.config.v1+json", []byte("{}")))
		image := pushManifest(t, r, MediaTypeManifest, map[string]any{
			"schemaVersion": 2, "mediaType": MediaTypeManifest, "config": mustWire(config),
			"layers": []any{map[string]any{
				"mediaType": layer.Descriptor.MediaType, "digest": layer.Descriptor.Digest.String(), "size": layer.Descriptor.Size,
				"urls": []string{"http://" + elsewhere.Prefix() + "/v2/team/demo/blobs/" + layer.Descriptor.Digest.String()},
			}},
		})
		graph, err := Graph(t.Context(), r, "demo", image)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := VerifyBlobs(t.Context(), r, "demo", graph); code(err) != want {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
