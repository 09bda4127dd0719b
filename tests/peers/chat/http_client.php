<?php

declare(strict_types=1);

/*
 * Guzzle and the HTTP clients of Symfony and Laravel, which PHP clients of language models use, in
 * Debian's versions, over the sidecar's socket.
 *
 * http_client.php ORIGIN TOKEN, with the socket in PILLION_SOCKET. The sidecar uses the model of
 * tests/integration/chat/clients.rs, which follows instructions. Exits with an error if a response is
 * wrong.
 */

use GuzzleHttp\Client;
use GuzzleHttp\Handler\CurlHandler;
use GuzzleHttp\HandlerStack;
use Illuminate\Http\Client\Factory;
use Symfony\Component\HttpClient\HttpClient;

require 'GuzzleHttp/autoload.php';
require 'Symfony/Component/HttpClient/autoload.php';
require 'Illuminate/autoload.php';

const URL = 'http://localhost/v1/chat/completions';

function request(string $said, bool $stream = false): array
{
    return ['model' => 'demo', 'stream' => $stream, 'messages' => [['role' => 'user', 'content' => $said]]];
}

function same(mixed $expected, mixed $found): void
{
    if ($expected !== $found) {
        throw new LogicException('Expected ' . var_export($expected, true) . ', found ' . var_export($found, true));
    }
}

/** Returns the text of an answer, streamed or not. */
function words(string $body): string
{
    if (! str_starts_with($body, 'data:')) {
        return json_decode($body, true, flags: JSON_THROW_ON_ERROR)['choices'][0]['message']['content'];
    }
    preg_match_all('/^data: (\{.*)$/m', $body, $chunks);
    $words = array_map(static fn ($chunk) => json_decode($chunk, true)['choices'][0]['delta']['content'] ?? '', $chunks[1]);
    return implode('', $words);
}

$socket = getenv('PILLION_SOCKET');
$sum = 'calculator {"expression": "6 * 7"}';

// Streams need curl's handler by name: with `stream`, Guzzle's default is PHP's handler, which has no sockets.
$guzzle = new Client([
    'handler' => HandlerStack::create(new CurlHandler()),
    'curl' => [CURLOPT_UNIX_SOCKET_PATH => $socket],
]);
foreach ([false, true] as $stream) {
    $answer = $guzzle->post(URL, ['json' => request($sum, $stream), 'stream' => $stream]);
    same('The tools say: 42', words((string) $answer->getBody()));
}
$refused = $guzzle->post(URL, ['json' => request('refuse a stream', true), 'stream' => true, 'http_errors' => false]);
same([429, '1'], [$refused->getStatusCode(), $refused->getHeaderLine('retry-after')]);

$symfony = HttpClient::create(['bindto' => $socket]);
same('The tools say: 42', words($symfony->request('POST', URL, ['json' => request($sum)])->getContent()));
$body = '';
foreach ($symfony->stream($symfony->request('POST', URL, ['json' => request($sum, true), 'buffer' => false])) as $chunk) {
    $body .= $chunk->getContent();
}
same('The tools say: 42', words($body));
// A client may disconnect, and the sidecar answers the next request.
$late = $symfony->request('POST', URL, ['json' => request('wait', true)]);
usleep(200_000);
$late->cancel();
same('demo', $symfony->request('GET', 'http://localhost/v1/models')->toArray()['data'][0]['id']);

$laravel = (new Factory())->withOptions(['curl' => [CURLOPT_UNIX_SOCKET_PATH => $socket]]);
same('The tools say: 42', $laravel->post(URL, request($sum))->json('choices.0.message.content'));
same('model_not_found', $laravel->get('http://localhost/v1/models/gone')->json('error.code'));

echo "PHP's HTTP clients: all as it should be\n";
