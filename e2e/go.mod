module github.com/orphan-reaper/orphan-reaper/e2e

go 1.26.0

require (
	github.com/orphan-reaper/orphan-reaper v0.0.0
	golang.org/x/sys v0.49.0
	google.golang.org/grpc v1.85.0
	k8s.io/cri-api v0.37.2
)

require (
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260928230214-8a89bd6388cc // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace github.com/orphan-reaper/orphan-reaper => ../
