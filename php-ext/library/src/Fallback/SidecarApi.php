<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\CancellationToken;
use Pillion\Exception\PillionException;
use Pillion\Exception\TimeoutException;
use Pillion\Exception\TransportException;
use Pillion\Exception\UnavailableException;
use Pillion\Fallback\Http\Deadline;
use Pillion\Fallback\Http\EventSource;
use Pillion\Fallback\Http\Request;
use Pillion\Fallback\Http\Response;
use Pillion\Fallback\Http\TransportErrors;
use Pillion\Fallback\Http\Transports;

/**
 * A client for the REST API of the sidecar. Responses are trees.
 *
 * @internal
 */
final class SidecarApi
{
    private const TOOLS = '/api/v1/tools/';

    /** @param float $timeout timeout of one request, in seconds */
    public function __construct(
        private readonly string $socketPath,
        private readonly float $timeout,
        private readonly ?CancellationToken $cancellation = null,
    ) {
    }

    public function health(): \stdClass
    {
        return $this->send(new Request('/healthz'));
    }

    /** Returns the response of a list route: `tools` or `schemas`. The field of that name is a list of objects. */
    public function list(string $field, ?string $category = null, ?Context $context = null): \stdClass
    {
        $query = $category === null ? '' : '?category=' . rawurlencode($category);
        $body = $this->send(new Request(self::TOOLS . ($field === 'tools' ? '' : $field) . $query, $context?->headers() ?? []));
        self::objects($body, $field);
        return $body;
    }

    /**
     * Checks the schemas of tools.
     *
     * @param list<array{name: string, inputSchema: \stdClass}> $tools
     *
     * @throws \Pillion\Exception\InvalidInputException naming the first tool with an invalid schema
     */
    public function checkSchemas(array $tools): void
    {
        $this->send(new Request('/api/v1/schemas/check', [], Json::encode(['tools' => $tools])));
    }

    /**
     * Converts to or from the format of a model provider.
     *
     * @param 'tools'|'tool-calls'|'text'|'messages'|'results' $part
     * @param string                                           $body JSON
     *
     * @throws \Pillion\Exception\InvalidInputException when the provider is unknown, or the body is not valid for it
     */
    public function format(string $part, string $provider, string $body): \stdClass
    {
        return $this->send(new Request("/api/v1/formats/$part?provider=" . rawurlencode($provider), [], $body));
    }

    /**
     * @param array<array-key, mixed> $filter
     *
     * @return list<\stdClass>
     */
    public function approvals(array $filter): array
    {
        $query = [];
        foreach ($filter as $key => $value) {
            if (!in_array($key, ['status', 'tool', 'user', 'limit', 'after'], true)) {
                throw Failure::invalidInput("There is no filter '$key'");
            }
            $query[$key] = match (true) {
                is_string($value) => $value,
                is_int($value), is_float($value) => Json::encode($value),
                default => throw Failure::invalidInput("The filter '$key' must be a string"),
            };
        }
        $query = http_build_query($query, '', '&', PHP_QUERY_RFC3986);
        $body = $this->send(new Request('/api/v1/approvals/' . ($query === '' ? '' : "?$query")));
        return self::objects($body, 'approvals');
    }

    /**
     * @param 'approve'|'deny'          $decision
     * @param ?array<string, mixed> $arguments arguments in place of the call's own
     */
    public function decide(string $approvalId, string $decision, ?string $reason, ?array $arguments = null): \stdClass
    {
        $path = '/api/v1/approvals/' . str_replace('.', '%2E', rawurlencode($approvalId)) . "/$decision";
        $body = array_filter(['reason' => $reason], is_string(...));
        if ($arguments !== null) {
            $tree = Json::toTree($arguments, 'argument $arguments');
            if (is_array($tree) && $tree !== []) {
                throw Failure::invalidInput('The arguments must be an array with names as keys');
            }
            $body['arguments'] = (object) $tree;
        }
        $body = Json::encode((object) $body);
        $approval = $this->send(new Request($path, [], $body))->approval ?? null;
        return $approval instanceof \stdClass ? $approval : throw Failure::transport("The sidecar's response has no approval");
    }

    /** @return list<\stdClass> */
    private static function objects(\stdClass $body, string $field): array
    {
        $list = $body->$field ?? null;
        if (!is_array($list)) {
            throw Failure::transport("The sidecar's response has no list '$field'");
        }
        foreach ($list as $entry) {
            if (!$entry instanceof \stdClass) {
                throw Failure::transport("The sidecar's list '$field' has an entry that is not an object");
            }
        }
        return $list;
    }

    /** Runs one tool; `$arguments` is JSON. */
    public function execute(string $name, string $arguments, Context $context): CallResponse
    {
        $outcome = $this->executeAll([[$name, $arguments, $this->timeout]], $context)[0];
        return $outcome instanceof CallResponse ? $outcome : throw $outcome;
    }

    /**
     * Runs tools concurrently, each in its own request with its own timeout.
     *
     * @param array<int, array{string, string, float}> $calls name, arguments as JSON, seconds
     *
     * @return array<int, CallResponse|PillionException> by the same keys
     */
    public function executeAll(array $calls, Context $context): array
    {
        $headers = $context->headers();
        $exchanges = array_map(function (array $call) use ($headers): array {
            [$name, $arguments, $seconds] = $call;
            // Dots are encoded, because they could change the path.
            $path = self::TOOLS . 'execute/' . str_replace('.', '%2E', rawurlencode($name));
            return [new Request($path, $headers, $arguments), new Deadline($seconds, $this->cancellation)];
        }, $calls);
        try {
            $outcomes = Transports::to($this->socketPath)->sendAll($exchanges);
        } catch (UnavailableException $e) {
            return array_map(static fn (): UnavailableException => $e, $calls);
        }
        $answers = [];
        foreach ($outcomes as $key => $outcome) {
            try {
                $answers[$key] = match (true) {
                    $outcome instanceof Response => CallResponse::parse(self::body($outcome)),
                    $outcome instanceof TimeoutException => TransportErrors::toolsTimedOut([$calls[$key][0]], $calls[$key][2]),
                    default => $outcome,
                };
            } catch (PillionException $e) {
                $answers[$key] = $e;
            }
        }
        return $answers;
    }

    /**
     * Runs calls in one request.
     *
     * @param list<string>            $calls      each call as JSON
     * @param list<string>            $names      the name of each call's tool
     * @param 'parallel'|'sequential' $mode
     * @param ?string                 $indexRange the indices of these calls, if a batch takes several requests:
     *                                       gives each request its own idempotency key
     *
     * @return list<CallResponse>|RejectedRequest in the order of the calls
     *
     * @throws PillionException when the sidecar does not answer
     */
    public function batch(array $calls, array $names, string $mode, Context $context, ?string $indexRange): array|RejectedRequest
    {
        $body = '{"calls":[' . implode(',', $calls) . "],\"mode\":\"$mode\"}";
        $headers = $context->headers();
        if ($indexRange !== null && isset($headers['idempotency-key'])) {
            $headers['idempotency-key'] = preg_replace('/("?)$/D', ".$indexRange$1", $headers['idempotency-key'], 1);
        }
        $request = new Request(self::TOOLS . 'batch-execute', $headers, $body);
        try {
            $response = $this->exchange($request);
        } catch (TimeoutException) {
            throw TransportErrors::toolsTimedOut($names, $this->timeout);
        }
        try {
            $results = self::body($response)->results ?? null;
            if (!is_array($results) || count($results) !== count($calls)) {
                throw Failure::transport("The sidecar's response has no result for each call");
            }
        } catch (PillionException $e) {
            return new RejectedRequest($e, $e instanceof TransportException ? 0 : $response->status);
        }
        return array_map(CallResponse::parse(...), $results);
    }

    /**
     * Starts or resumes a chat and waits for the answer.
     *
     * @param array<string, mixed> $request
     */
    public function chat(?string $id, array $request, Context $context): \stdClass
    {
        return $this->send(self::chatRequest($id, $request, $context));
    }

    /**
     * Starts or resumes a chat like {@see chat()} and returns its events as they arrive.
     *
     * @param array<string, mixed> $request
     */
    public function chatEvents(?string $id, array $request, Context $context): EventSource
    {
        $deadline = new Deadline($this->timeout, $this->cancellation);
        $events = EventSource::open($this->socketPath, self::chatRequest($id, $request, $context), $deadline);
        if ($events->status() !== 200) {
            self::body($events->rejectedResponse());
        }
        return $events;
    }

    /** @param array<string, mixed> $request */
    private static function chatRequest(?string $id, array $request, Context $context): Request
    {
        $path = '/api/v1/chat/' . str_replace('.', '%2E', rawurlencode($id ?? ''));
        return new Request($path, $context->headers(), Json::encode($request === [] ? new \stdClass() : $request));
    }

    /** Returns the body of the response; throws an exception unless the status is 200. */
    private function send(Request $request): \stdClass
    {
        return self::body($this->exchange($request));
    }

    private function exchange(Request $request): Response
    {
        return Transports::to($this->socketPath)->send($request, new Deadline($this->timeout, $this->cancellation));
    }

    private static function body(Response $response): \stdClass
    {
        try {
            $body = Json::parse($response->body);
        } catch (\JsonException $e) {
            throw Failure::transport(
                "The sidecar's response (HTTP status $response->status) is not the expected JSON: {$e->getMessage()}",
                $response->status,
            );
        }
        if (!$body instanceof \stdClass) {
            throw Failure::transport("The sidecar's response (HTTP status $response->status) is not a JSON object", $response->status);
        }
        if ($response->status === 200) {
            return $body;
        }
        if (!is_string($body->error ?? null) || !is_string($body->error_code ?? null)) {
            throw Failure::transport("The sidecar answered with HTTP status $response->status", $response->status);
        }
        throw Failure::forCode($body->error_code, $body->error);
    }
}
