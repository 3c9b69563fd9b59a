// Draws the API's own OpenAPI document; nothing is loaded from another host.
const place = document.getElementById("api");
SwaggerUIBundle({
  url: place.dataset.schema,
  domNode: place,
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  persistAuthorization: false,
  validatorUrl: null,
  // For people who are signed in; a bearer token, if one is given, needs none of it.
  requestInterceptor: (request) => {
    request.headers["X-CSRFToken"] = place.dataset.csrf;
    return request;
  },
  presets: [SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
});
