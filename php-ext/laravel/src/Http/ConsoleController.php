<?php

declare(strict_types=1);

namespace Pillion\Laravel\Http;

use Illuminate\Contracts\Auth\Access\Gate;
use Illuminate\Contracts\Config\Repository;
use Illuminate\Http\Request;
use LogicException;
use Pillion\Exception\InvalidInputException;
use Pillion\Exception\PillionException;
use Pillion\Exception\TimeoutException;
use Pillion\Exception\UnavailableException;
use Pillion\Fallback\Http\BodyStream;
use Pillion\Fallback\Http\Deadline;
use Pillion\Fallback\Http\Request as SidecarRequest;
use Pillion\Laravel\ConfigReader;
use Pillion\Laravel\Hooks;
use Pillion\Sidecar;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\HttpFoundation\StreamedResponse;

/**
 * Forwards the requests of browsers to the sidecar's console, on behalf of users who pass the gate
 * `viewPillion`. The sidecar checks the token and the origin of each form.
 *
 * @internal
 */
final class ConsoleController
{
    /** The gate that a user must pass. */
    public const GATE = 'viewPillion';

    /** Maximum length of a user's name, in bytes, as in the sidecar. */
    private const MAX_USER_BYTES = 256;

    /**
     * The browser's headers that are forwarded to the sidecar. The other headers are dropped, so
     * that a browser cannot name a user, and the sidecar does not receive the cookies of the
     * application.
     */
    private const FORWARDED_HEADERS = ['content-type', 'origin', 'referer', 'sec-fetch-site'];

    /**
     * The sidecar's headers that are not forwarded to the browser: the headers of the connection,
     * the headers that PHP and the web server set, and cookies, which would become cookies of the
     * application.
     */
    private const DROPPED_HEADERS = [
        'connection', 'content-length', 'date', 'keep-alive', 'proxy-authenticate', 'server', 'set-cookie', 'te',
        'trailer', 'transfer-encoding', 'upgrade',
    ];

    /** The pages that sign browsers in and out, which the application's log-in replaces. */
    private const SIGN_IN_PAGES = ['sign-in', 'sign-out'];

    /** The path of the event stream that reports changes. */
    private const LIVE_PATH = 'live';

    public function __invoke(Request $request, Gate $gate, Repository $config, Hooks $hooks): Response
    {
        $gate->authorize(self::GATE);
        $path = self::consolePath($request);
        if ($path === '') {
            return self::redirectToHome($request);
        }
        $segments = array_map('rawurldecode', explode('/', $path));
        if (array_intersect(['.', '..'], $segments) !== [] || in_array($segments[0], self::SIGN_IN_PAGES, true)) {
            return self::textResponse(404, 'There is no such page.');
        }
        $streamSeconds = ConfigReader::readWholeNumber($config, 'console.stream_seconds', 60);
        if ($path === self::LIVE_PATH && $streamSeconds === 0) {
            // The console's script closes the stream after this event and does not open another.
            return new Response("event: off\ndata: {}\n\n", 200, ['content-type' => 'text/event-stream', 'cache-control' => 'no-store']);
        }
        $headers = self::requestHeaders($request) + self::identityHeaders($request, $hooks);
        $query = (string) $request->server->get('QUERY_STRING', '');
        $sidecarRequest = new SidecarRequest(
            self::encode("/console/$path") . ($query === '' ? '' : '?' . self::encode($query)),
            $headers,
            $request->isMethod('POST') ? (string) $request->getContent() : null,
            $request->isMethod('HEAD'),
        );
        $seconds = (float) ConfigReader::toNumber(ConfigReader::read($config, 'sidecar.timeout', 60));
        try {
            $stream = BodyStream::open((new Sidecar())->getSocketPath(), $sidecarRequest, new Deadline($seconds));
            return self::respond($stream, $seconds, $path === self::LIVE_PATH ? $streamSeconds : null);
        } catch (PillionException $exception) {
            return self::failureResponse($exception);
        }
    }

    /**
     * Returns the part of the requested path that is below the console's path. The part is not
     * decoded, because a segment may contain an encoded slash.
     */
    private static function consolePath(Request $request): string
    {
        $prefix = trim((string) preg_replace('/\{consolePath\?\}$/', '', $request->route()->uri()), '/');
        $prefixSegments = $prefix === '' ? 0 : substr_count($prefix, '/') + 1;
        $segments = explode('/', ltrim($request->getPathInfo(), '/'));
        return implode('/', array_slice($segments, $prefixSegments));
    }

    /**
     * Redirects from the console's path to the home page. The redirect is relative to the requested
     * URL, which ends with or without a slash, so that the redirect works behind every proxy.
     */
    private static function redirectToHome(Request $request): Response
    {
        $requestPath = (string) strtok($request->getRequestUri(), '?');
        $lastSegment = substr((string) strrchr($requestPath, '/'), 1);
        $location = './' . ($lastSegment === '' ? '' : "$lastSegment/") . 'home';
        return new Response('', 303, ['location' => $location, 'cache-control' => 'no-store']);
    }

    /** @return array<string, string> */
    private static function requestHeaders(Request $request): array
    {
        $headers = ['host' => $request->getHttpHost()];
        foreach (self::FORWARDED_HEADERS as $name) {
            $value = $request->headers->get($name);
            if (is_string($value) && preg_match('/[^\t\x20-\x7e\x80-\xff]/', $value) === 0) {
                $headers[$name] = $value;
            }
        }
        return $headers;
    }

    /**
     * Returns the headers with the user's name and with a secret of the session, which the console
     * uses as its CSRF token. The secret is derived, so that the sidecar and its pages do not contain
     * the token of the application's own forms. It depends on the ID of the session and on the user:
     * some log-ins change only the ID, or neither, and forms of an earlier user must become invalid.
     *
     * @return array<string, string>
     */
    private static function identityHeaders(Request $request, Hooks $hooks): array
    {
        if (!$request->hasSession()) {
            throw new LogicException(
                "The console needs a session: add middleware that starts one to pillion.console.middleware, such as the group 'web'"
            );
        }
        $user = $hooks->consoleUser($request->user()) ?? 'guest';
        if (strlen($user) > self::MAX_USER_BYTES || preg_match('/^[^\x00-\x1f\x7f]+$/Du', $user) !== 1) {
            throw new InvalidInputException(
                'The name of a user of the console must be UTF-8 without control characters, at most ' . self::MAX_USER_BYTES
                . ' bytes: set another name with Pillion::resolveConsoleUserUsing()'
            );
        }
        $session = $request->session();
        return [
            'x-pillion-console-user' => $user,
            'x-pillion-console-csrf' => hash_hmac('sha256', "pillion.console\0{$session->getId()}\0$user", $session->token()),
        ];
    }

    /** Encodes all bytes that are not allowed in a request line. */
    private static function encode(string $target): string
    {
        return (string) preg_replace_callback('/[^\x21\x22\x24-\x7e]/', static fn (array $match): string => rawurlencode($match[0]), $target);
    }

    /**
     * Returns the sidecar's response. A response without a length is streamed.
     *
     * @param float $readTimeout maximum pause of the sidecar, in seconds
     * @param ?int  $maxSeconds  maximum duration of a live stream, in seconds; null for other responses
     *
     * @throws PillionException
     */
    private static function respond(BodyStream $stream, float $readTimeout, ?int $maxSeconds): Response
    {
        $headers = array_diff_key($stream->headers(), array_flip(self::DROPPED_HEADERS));
        if (!isset($stream->headers()['transfer-encoding'])) {
            $body = '';
            $deadline = new Deadline($readTimeout);
            while (($part = $stream->read($deadline)) !== null) {
                $body .= $part;
            }
            $response = new Response($body, $stream->status(), $headers);
        } else {
            $write = $maxSeconds === null
                ? static fn () => self::writeDownload($stream, $readTimeout)
                : static fn () => self::writeEvents($stream, $maxSeconds);
            // The header prevents nginx from buffering the response.
            $response = new StreamedResponse($write, $stream->status(), ['x-accel-buffering' => 'no'] + $headers);
        }
        // The application may add its cookies, which no shared cache may store.
        return $response->setPrivate();
    }

    private static function writeDownload(BodyStream $stream, float $readTimeout): void
    {
        try {
            while (($part = $stream->read(new Deadline($readTimeout))) !== null) {
                self::write($part);
            }
        } catch (PillionException $exception) {
            // The status has already been sent, so an exception would add an error page to the file.
            self::write("\n\nThis file is incomplete: {$exception->getMessage()}\n");
        } finally {
            $stream->close();
        }
    }

    /**
     * Writes the events until the stream ends or has lasted `$maxSeconds`; the browser then
     * connects again. The session is not locked during the stream, because its middleware has
     * already saved the session.
     */
    private static function writeEvents(BodyStream $stream, int $maxSeconds): void
    {
        $deadline = new Deadline($maxSeconds);
        try {
            // Sends the headers to the browser at once, with a comment of the stream.
            self::write(":\n\n");
            while (connection_aborted() === 0 && ($part = $stream->read($deadline)) !== null) {
                self::write($part);
            }
        } catch (PillionException) {
            // The time is up, or the sidecar has stopped.
        } finally {
            $stream->close();
        }
    }

    private static function write(string $part): void
    {
        echo $part;
        if (ob_get_level() > 0) {
            ob_flush();
        }
        flush();
    }

    private static function failureResponse(PillionException $exception): Response
    {
        $status = match (true) {
            $exception instanceof UnavailableException => 503,
            $exception instanceof TimeoutException => 504,
            default => 502,
        };
        return self::textResponse($status, <<<TEXT
            The Pillion console is not available.

            {$exception->getMessage()}

            The console is part of the sidecar: start a sidecar with `pillion serve`, and set sidecar.socket
            in config/pillion.php to its socket if the sidecar does not use the default socket.
            TEXT);
    }

    private static function textResponse(int $status, string $text): Response
    {
        return new Response("$text\n", $status, ['content-type' => 'text/plain; charset=utf-8', 'cache-control' => 'no-store', 'x-content-type-options' => 'nosniff']);
    }
}
