<?php

declare(strict_types=1);

/*
 * The client of Composer's openai-php/client, as an application uses it, with the sidecar behind its
 * base URI, or behind its socket.
 *
 * openai_client.php ORIGIN TOKEN, with the packages in PILLION_PHP_VENDOR and the sidecar's socket in
 * PILLION_SOCKET: the token decides on approvals too. Behind it is the model of
 * tests/integration/chat/clients.rs, which does what it is told. Ends with an error when an answer is
 * not the right one.
 */

use GuzzleHttp\Handler\CurlHandler;
use GuzzleHttp\HandlerStack;
use OpenAI\Client;
use OpenAI\Exceptions\ErrorException;
use OpenAI\Exceptions\RateLimitException;
use OpenAI\Exceptions\TransporterException;
use Symfony\Component\HttpClient\HttpClient;
use Symfony\Component\HttpClient\Psr18Client;

require getenv('PILLION_PHP_VENDOR') . '/autoload.php';

const SUM = 'calculator {"expression": "6 * 7"}';
const PIZZA = [
    'type' => 'function',
    'function' => [
        'name' => 'order_pizza',
        'parameters' => ['type' => 'object', 'properties' => ['size' => ['type' => 'integer']]],
    ],
];

[, $origin, $token] = $argv;

function same(mixed $expected, mixed $found): void
{
    if ($expected !== $found) {
        throw new LogicException('Expected ' . var_export($expected, true) . ', found ' . var_export($found, true));
    }
}

function client(string $origin, string $token, array $guzzle = []): Client
{
    return OpenAI::factory()->withApiKey($token)->withBaseUri("$origin/v1")
        ->withHttpClient(new GuzzleHttp\Client($guzzle))->make();
}

function request(string $said, array $more = []): array
{
    return ['model' => 'demo', 'messages' => [['role' => 'user', 'content' => $said]], ...$more];
}

/**
 * The exception of that class that the request ends with.
 *
 * @template T of Throwable
 * @param class-string<T> $class
 * @return T
 */
function refusal(string $class, callable $request): Throwable
{
    try {
        $request();
    } catch (Throwable $error) {
        return $error instanceof $class ? $error : throw $error;
    }
    throw new LogicException("no $class");
}

/** The words of a stream, what it cost and why it ended. */
function streamed(Client $client, array $request): array
{
    [$words, $cost, $reason] = ['', null, null];
    foreach ($client->chat()->createStreamed($request) as $chunk) {
        $words .= $chunk->choices[0]->delta->content ?? '';
        $reason = $chunk->choices[0]->finishReason ?? $reason;
        $cost = $chunk->usage?->totalTokens ?? $cost;
    }
    return [$words, $cost, $reason];
}

function models(Client $client): void
{
    $names = array_map(static fn ($model) => $model->id, $client->models()->list()->data);
    same(['demo', 'small/er'], $names);
    foreach ($names as $name) {
        // The client puts the name into the path as it is.
        $model = $client->models()->retrieve($name);
        same([$name, 'model', 'fake'], [$model->id, $model->object, $model->ownedBy]);
    }
    $error = refusal(ErrorException::class, static fn () => $client->models()->retrieve('gone'));
    same([404, 'model_not_found'], [$error->getStatusCode(), $error->getErrorCode()]);
}

function answers(Client $client): void
{
    $answer = $client->chat()->create(request(SUM, ['user' => 'ada']));
    [$choice] = $answer->choices;
    same('The tools say: 42', $choice->message->content);
    same(['stop', []], [$choice->finishReason, $choice->message->toolCalls]);
    same([20, 10, 30], [$answer->usage->promptTokens, $answer->usage->completionTokens, $answer->usage->totalTokens]);
    same('demo', $answer->toArray()['model']);
    $without = $client->chat()->create(request(SUM, ['tool_choice' => 'none']));
    same('You said: ' . SUM, $without->choices[0]->message->content);
}

function streams(Client $client): void
{
    $costs = ['stream_options' => ['include_usage' => true]];
    same(['The tools say: 42', 30, 'stop'], streamed($client, request(SUM, $costs)));
    same(['The tools say: 42', null, 'stop'], streamed($client, request(SUM)));
    // Whoever has enough stops reading.
    foreach ($client->chat()->createStreamed(request('Hello')) as $chunk) {
        same('assistant', $chunk->choices[0]->delta->role);
        break;
    }
}

function ownTools(Client $client): void
{
    $request = request('order_pizza {"size": 3}', ['tools' => [PIZZA]]);
    [$choice] = $client->chat()->create($request)->choices;
    same('tool_calls', $choice->finishReason);
    [$call] = $choice->message->toolCalls;
    same(['order_pizza', ['size' => 3]], [$call->function->name, json_decode($call->function->arguments, true)]);
    $result = ['role' => 'tool', 'tool_call_id' => $call->id, 'content' => 'It is in the oven.'];
    array_push($request['messages'], $choice->message->toArray(), $result);
    same('The tools say: It is in the oven.', $client->chat()->create($request)->choices[0]->message->content);
    // A tool without parameters, as PHP writes it.
    $nothing = ['type' => 'function', 'function' => ['name' => 'wait_a_bit', 'parameters' => [
        'type' => 'object', 'properties' => [],
    ]]];
    $asked = request('wait_a_bit {}', ['tools' => [$nothing], 'tool_choice' => 'required']);
    same('{}', $client->chat()->create($asked)->choices[0]->message->toolCalls[0]->function->arguments);

    $calls = [];
    $two = request("order_pizza {\"size\": 1}\norder_pizza {\"size\": 2}", ['tools' => [PIZZA]]);
    foreach ($client->chat()->createStreamed($two) as $chunk) {
        foreach ($chunk->choices[0]->delta->toolCalls as $piece) {
            $calls[$piece->index] = ($calls[$piece->index] ?? '') . $piece->function->arguments;
        }
        $reason = $chunk->choices[0]->finishReason;
    }
    same([['size' => 1], ['size' => 2]], array_map(static fn ($call) => json_decode($call, true), $calls));
    same('tool_calls', $reason);
}

function structured(Client $client): void
{
    $schema = ['type' => 'object', 'properties' => ['city' => ['type' => 'string'], 'hour' => ['type' => 'integer']]];
    $answer = $client->chat()->create(request('When does it leave?', ['response_format' => [
        'type' => 'json_schema', 'json_schema' => ['name' => 'departure', 'schema' => $schema],
    ]]));
    same(['city' => 'Tokyo', 'hour' => 9], json_decode($answer->choices[0]->message->content, true));
}

function errors(Client $client, string $origin, string $token): void
{
    $stranger = client($origin, 'wrong-wrong-wrong-wrong');
    $error = refusal(ErrorException::class, static fn () => $stranger->models()->list());
    same([401, 'invalid_api_key'], [$error->getStatusCode(), $error->getErrorCode()]);
    $gone = request('Hi', ['model' => 'gone']);
    $error = refusal(ErrorException::class, static fn () => $client->chat()->create($gone));
    same([404, 'model_not_found'], [$error->getStatusCode(), $error->getErrorCode()]);
    // A stream that cannot begin is refused like that as well.
    $error = refusal(ErrorException::class, static fn () => streamed($client, $gone));
    same([404, 'invalid_request_error'], [$error->getStatusCode(), $error->getErrorType()]);
    $busy = static fn () => $client->chat()->create(request('refuse php'));
    $error = refusal(RateLimitException::class, $busy);
    same('1', $error->response->getHeaderLine('retry-after'));
    same('You said: refuse php', $busy()->choices[0]->message->content);
    $error = refusal(ErrorException::class, static fn () => streamed($client, request('refuse a stream')));
    same([429, 'rate_limited'], [$error->getStatusCode(), $error->getErrorCode()]);
    $hasty = client($origin, $token, ['timeout' => 0.5]);
    refusal(TransporterException::class, static fn () => $hasty->chat()->create(request('wait')));
}

function approvals(Client $client, string $origin, string $token): void
{
    $request = request('get_time {"timezone": "UTC"}');
    $error = refusal(ErrorException::class, static fn () => $client->chat()->create($request));
    same([403, 'approval_required'], [$error->getStatusCode(), $error->getErrorCode()]);
    $rest = new GuzzleHttp\Client(['base_uri' => $origin, 'headers' => ['Authorization' => "Bearer $token"]]);
    $waiting = json_decode((string) $rest->get('/api/v1/approvals?status=pending')->getBody(), true)['approvals'];
    foreach ($waiting as ['id' => $id]) {
        if (str_contains($error->getErrorMessage(), $id)) {
            $rest->post("/api/v1/approvals/$id/approve");
        }
    }
    $goesOn = OpenAI::factory()->withApiKey($token)->withBaseUri("$origin/v1")
        ->withHttpHeader('x-pillion-chat', $error->response->getHeaderLine('x-pillion-chat'))->make();
    $words = $goesOn->chat()->create($request)->choices[0]->message->content;
    same(true, str_starts_with($words, 'The tools say: '));
}

/** Without a token: the socket's permissions say who may. */
function overTheSocket(string $socket): void
{
    $factory = OpenAI::factory()->withBaseUri('http://localhost/v1');
    $guzzle = new GuzzleHttp\Client([
        'handler' => HandlerStack::create(new CurlHandler()),
        'curl' => [CURLOPT_UNIX_SOCKET_PATH => $socket],
    ]);
    $symfony = new Psr18Client(HttpClient::create(['bindto' => $socket]));
    foreach ([$guzzle, $symfony] as $http) {
        $client = $factory->withHttpClient($http)->make();
        same('demo', $client->models()->list()->data[0]->id);
        same('The tools say: 42', $client->chat()->create(request(SUM))->choices[0]->message->content);
        same(['The tools say: 42', null, 'stop'], streamed($client, request(SUM)));
    }
}

$client = client($origin, $token);
models($client);
answers($client);
streams($client);
ownTools($client);
structured($client);
errors($client, $origin, $token);
approvals($client, $origin, $token);
overTheSocket(getenv('PILLION_SOCKET'));
echo "openai-php/client: all as it should be\n";
