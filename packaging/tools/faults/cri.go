package main

// criFaults are caught by the room that asks the runtimes for the pods.
var criFaults = []fault{
	{
		kind: slip, slip: "a socket that is set and refuses is passed over",
		file: "reaper/cri/ask.go", in: "ask",
		old: `absent := !set && (`, new: `absent := (`,
		tests: []string{"reaper/node"},
	},
	{
		kind: slip, slip: "a list of the sandboxes alone is a complete answer",
		file: "reaper/cri/ask.go", in: "ask",
		old: `a.Err = a.ContainerErr`, new: `a.Err = nil`,
		tests: []string{"reaper/node"},
	},
	{
		kind: slip, slip: "a runtime that fails is a server without CRI",
		file: "reaper/cri/client.go", in: "Conn.Call",
		old:   `if status.Code(err) == codes.Unimplemented {`,
		new:   `if c := status.Code(err); c == codes.Unimplemented || c == codes.Unavailable {`,
		tests: []string{"reaper/node"},
	},
	{
		kind: slip, slip: "the list of a runtime may be as long as gRPC's default, 4 MiB",
		file: "reaper/cri/client.go", in: "Connect",
		old: `grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),`, new: ``,
		tests: []string{"reaper/node", "reaper/cni"},
	},
	{
		kind: slip, slip: "a user's annotation gives a pod the UID of another one",
		file: "reaper/cri/labels.go", in: "PodNames",
		old: `IsStatic(a[AnnotationSource])`, new: `a[AnnotationHash] != ""`,
		tests: []string{"reaper/node"},
	},
	{
		kind: slip, slip: "the pod of a manifest from a URL is not static",
		file: "reaper/cri/labels.go", in: "IsStatic",
		old: `source == "file" || source == "http"`, new: `source == "file"`,
		tests: []string{"reaper/node"},
	},
	{
		kind: slip, slip: "a path of a socket that cannot be read is no socket",
		file: "reaper/cri/sockets.go", in: "ExistingSockets",
		old: `return nil, fmt.Errorf("%w; set --runtime-endpoint", err)`, new: `_ = fmt.Errorf; continue`,
		tests: []string{"reaper/node"},
	},
}
